"""Loss over training compute, both axes logarithmic, with the power law of each scheme."""

from __future__ import annotations

import math

from attnres_cli.analysis.power_law import FEWEST_SIZES
from attnres_cli.report.picture import Axis, Lines, Picture, Series
from attnres_cli.report.pictures._series import sentences, told
from attnres_cli.report.pictures_of_sweeps._curves import has_points, loss_curve, seeds_words
from attnres_cli.report.sweep_results import Results, SweepDocument
from attnres_cli.report.tables.sweep_laws import FLOPS_PER_PFLOP_S_DAY, Laws

FLOPS = Axis("training compute", "FLOPs", logarithmic=True)
LOSS = Axis("validation loss", "nats per token", logarithmic=True)
POINTS_OF_A_LAW = 48


def build(document: SweepDocument) -> list[Picture]:
    results = Results.of(document)
    measured = [curve for label in results.labels if has_points(curve := _measured(results, label))]
    if not measured:
        return []
    laws = Laws.of(results)
    fitted = [] if laws is None else [_law(results, laws, label) for label in laws.fitted]
    title = "Validation loss over training compute"
    exponents = [] if laws is None else [f"{label} {law.exponent.value:.4g}" for label, law in laws.fitted.items()]
    caption = sentences(
        "mixing over depth counted",
        seeds_words(results),
        f"dashed: L = A · C^−α{' + E' if laws and any(law.irreducible for law in laws.fitted.values()) else ''}, "
        f"α: {', '.join(exponents)}"
        if exponents
        else f"no law: it needs {FEWEST_SIZES} sizes that every scheme has finished with every seed",
    )
    said = told(title, measured, FLOPS)
    if exponents:
        said += f" Exponents of the fitted power laws: {', '.join(exponents)}."
    return [Lines("scaling", title, FLOPS, LOSS, (*measured, *fitted), said, caption)]


def _measured(results: Results, label: str) -> Series:
    """Mean losses over what a run of the arm costs in each cell."""
    places = sorted(
        (float(runs[0]["flops"]), cell["key"])
        for cell in results.document["cells"]
        if (runs := results.runs.get((cell["key"], label)))
    )
    return loss_curve(results, label, places, joined=False)


def _law(results: Results, laws: Laws, label: str) -> Series:
    """The fitted law between its smallest and its largest size."""
    compute = laws.points[label].compute
    first, last = math.log(compute[0]), math.log(compute[-1])
    x = [math.exp(first + (last - first) * index / (POINTS_OF_A_LAW - 1)) for index in range(POINTS_OF_A_LAW)]
    law = laws.fitted[label].law
    return Series(
        f"{label}, fitted law", results.labels.index(label), tuple(each * FLOPS_PER_PFLOP_S_DAY for each in x),
        tuple(law.loss(each) for each in x), dashed=True,
    )  # fmt: skip
