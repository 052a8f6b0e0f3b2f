"""A weighted sum over runs of one seed, such as one arm's loss less another's, tested over seeds."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, Field

from attnres_cli.analysis.claims import Assumed, Expected, Finding, judge_mean
from attnres_cli.report.evidence import LOSS, Evidence, Prior, is_ratio


class Settings(BaseModel):
    """expected: on which side of `bound` the paper has the sum; "within": between -bound and bound. For a figure that
    is a ratio the sum is over logarithms, so that 1 and -1 make a ratio of ratios, and the bound is a ratio."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    figure: str = Field(LOSS, description="loss, or a figure of runs/observed.py")
    weights: dict[str, float] = Field(description='"cell/arm" → weight')
    expected: Expected
    bound: float | None = Field(None, description="where the sides meet; without it 0, of a ratio 1")

    @property
    def threshold(self) -> float:
        """The bound on the scale of the test."""
        if is_ratio(self.figure):
            return math.log(1.0 if self.bound is None else self.bound)
        return 0.0 if self.bound is None else self.bound


def runs(settings: Settings) -> tuple[str, ...]:
    return tuple(settings.weights)


def benches(settings: Settings) -> tuple[str, ...]:
    return ()


def assumed(settings: Settings, prior: Prior, samples: int) -> Assumed:
    if settings.expected == "within":
        return Assumed(settings.threshold, prior.standard_deviation, samples, within=True)
    return Assumed(prior.effect - settings.threshold, prior.standard_deviation, samples)


def judge(settings: Settings, evidence: Evidence) -> Finding | None:
    known = {place: evidence.values(place, settings.figure) for place in settings.weights}
    seeds = sorted(set.intersection(*(set(values) for values in known.values())))
    sums = [math.fsum(weight * known[place][seed] for place, weight in settings.weights.items()) for seed in seeds]
    return judge_mean(sums, settings.expected, settings.threshold)


def number(settings: Settings, value: float) -> str:
    return f"{math.exp(value):.2f}×" if is_ratio(settings.figure) else f"{value:+.4f}"
