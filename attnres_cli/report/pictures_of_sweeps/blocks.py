"""Loss by number of blocks, with the reference as a level, and the points of the paper's figure in the caption."""

from __future__ import annotations

from dataclasses import replace

from attnres_cli.report.picture import Axis, Lines, Picture, Series
from attnres_cli.report.pictures._series import on_fitting_scale, sentences, told
from attnres_cli.report.pictures_of_sweeps import arms
from attnres_cli.report.pictures_of_sweeps._curves import LOSS, has_points, loss_curve, seeds_words
from attnres_cli.report.sweep_results import Results, SweepDocument

BLOCKS = Axis("number of blocks N", logarithmic=True)


def build(document: SweepDocument) -> list[Picture]:
    results = Results.of(document)
    facts = {arm["label"]: arm["facts"] for arm in document["arms"]}
    sizes = sorted((each["num_blocks"], label) for label, each in facts.items() if "num_blocks" in each)
    cell = document["cells"][0]["key"]
    points = [loss_curve(results, label, [(float(count), cell)]) for count, label in sizes]
    curve = _joined(points)
    if curve is None or not has_points(curve):
        return []
    title = "Validation loss by number of blocks"
    reference = loss_curve(results, results.labels[0], [(curve.x[0], cell), (curve.x[-1], cell)])
    series = (reference, curve)
    paper = _paper(document, sizes)
    caption = sentences(seeds_words(results), f"dashed: {reference.label}, which has none", paper)
    lines = Lines(
        "blocks", title, BLOCKS, LOSS, (replace(reference, dashed=True), curve), told(title, series, BLOCKS), caption
    )
    return [*on_fitting_scale([lines]), *arms.build(document)]


def _joined(points: list[Series]) -> Series | None:
    """The points of all sizes as one curve."""
    if not points:
        return None
    has_interval = any(each.low for each in points)
    return Series(
        "blocks", 1, tuple(each.x[0] for each in points), tuple(each.y[0] for each in points),
        tuple(each.low[0] if each.low else None for each in points) if has_interval else None,
        tuple(each.high[0] if each.high else None for each in points) if has_interval else None,
    )  # fmt: skip


def _paper(document: SweepDocument, sizes: list[tuple[int, str]]) -> str:
    """ "The paper's figure (32 sublayers): N = 8 1.737, N = 16 1.735"."""
    facts = {arm["label"]: arm["facts"] for arm in document["arms"]}
    rows = [
        (each["table"], f"{facts[label]['block_sublayers']} sublayers per block {each['validation_loss']:.3f}")
        for _, label in sizes
        for each in facts[label].get("paper") or ()
    ]
    return f"{rows[0][0]} of the paper, another size: {'; '.join(row for _, row in rows)}" if rows else ""
