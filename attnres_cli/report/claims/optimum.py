"""Whether an arm's best shape is deeper and narrower than the baseline's: optima of curves through several shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from attnres_cli.analysis.claims import Assumed, Finding
from attnres_cli.analysis.optimum import FEWEST_CELLS, RowOptimum, optimum_shift, row_optimum
from attnres_cli.analysis.paired import FEWEST_PAIRS
from attnres_cli.report.evidence import LOSS, Evidence, Prior

DEPTH, WIDTH = "model.transformer_blocks", "model.d_model"


class Settings(BaseModel):
    """The claim: of d_model / L_b, the arm's optimum is the smaller one.

    Tested on the logarithm of its ratio to the baseline's, seed by seed, as `sweep depth-width` does
    (analysis/optimum.py). Where either optimum lies at an end of the shapes nothing is shown.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: tuple[str, ...] = Field(min_length=FEWEST_CELLS, description='"cell/arm" of every shape')
    baseline: tuple[str, ...] = Field(min_length=FEWEST_CELLS, description='"cell/arm" of every shape')


def runs(settings: Settings) -> tuple[str, ...]:
    return (*settings.arm, *settings.baseline)


def benches(settings: Settings) -> tuple[str, ...]:
    return ()


def assumed(settings: Settings, prior: Prior, samples: int) -> Assumed:
    return Assumed(prior.effect, prior.standard_deviation, samples)


def judge(settings: Settings, evidence: Evidence) -> Finding | None:
    """The estimate is the log of the ratio of both optima; for one at an end of the shapes, that end stands."""
    known = {place: evidence.values(place, LOSS) for place in runs(settings)}
    seeds = sorted(set.intersection(*(set(values) for values in known.values())))
    if len(seeds) < FEWEST_PAIRS:
        return None
    (ours, _), (theirs, _) = optima = [
        _optimum(evidence, places, known, seeds) for places in (settings.arm, settings.baseline)
    ]
    shift = optimum_shift(ours, theirs)
    if shift is not None:
        return Finding(shift.mean, shift.low, shift.high, shift.p, shift.mean < 0, shift.n)
    at, against = (math.log(_place(*each)) for each in optima)
    words = [
        f"the {name} is best at the {_END[each.edge]} shape or beyond"
        for name, each in (("arm", ours), ("baseline", theirs))
        if each.edge is not None
    ]
    return Finding(at - against, None, None, 1.0, at < against, len(seeds), "; ".join(words))


def number(settings: Settings, value: float) -> str:
    return f"{math.exp(value):.2f}×"


_END = {"lowest": "deepest", "highest": "widest"}


def _optimum(
    evidence: Evidence, places: Sequence[str], losses: Mapping[str, Mapping[int, float]], seeds: Sequence[int]
) -> tuple[RowOptimum, list[float]]:
    """With the ratios of the shapes."""
    ratios = [evidence.setting(place, WIDTH) / evidence.setting(place, DEPTH) for place in places]
    return row_optimum(ratios, [[losses[place][seed] for seed in seeds] for place in places]), ratios


def _place(optimum: RowOptimum, ratios: Sequence[float]) -> float:
    if optimum.ratio is not None:
        return optimum.ratio
    return min(ratios) if optimum.edge == "lowest" else max(ratios)
