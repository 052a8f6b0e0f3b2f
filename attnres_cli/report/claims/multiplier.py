"""How much more compute the baseline needs for another arm's loss, from its own decayed runs of several lengths."""

from __future__ import annotations

import math

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from attnres_cli.analysis.claims import Assumed, Finding, judge_mean
from attnres_cli.analysis.ladder import ladder_multiplier
from attnres_cli.report.evidence import LOSS, Evidence, Prior


class Settings(BaseModel):
    """The claim: for the loss of the arm the baseline needs at least `bound` times the training FLOPs.

    Tested on log loss: seed by seed the arm's less the ladder's at `bound` times the arm's FLOPs, interpolated as in
    analysis/ladder.py.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str = Field(description='"cell/arm"')
    ladder: tuple[str, ...] = Field(min_length=2, description='"cell/arm" of the baseline, the shortest run first')
    bound: float = Field(gt=0, description="the multiple of compute that is claimed")


def runs(settings: Settings) -> tuple[str, ...]:
    return (settings.arm, *settings.ladder)


def benches(settings: Settings) -> tuple[str, ...]:
    return ()


def assumed(settings: Settings, prior: Prior, samples: int) -> Assumed:
    return Assumed(prior.effect, prior.standard_deviation, samples)


def judge(settings: Settings, evidence: Evidence) -> Finding | None:
    """The estimate is the log of the multiplier, within the ladder; the p that of the t-test at `bound`."""
    losses = [evidence.values(place, LOSS) for place in runs(settings)]
    seeds = sorted(set.intersection(*(set(each) for each in losses)))
    if len(seeds) < 2:
        return None
    own, *rungs = ([each[seed] for seed in seeds] for each in losses)
    compute = [evidence.flops(place) for place in settings.ladder]
    at = evidence.flops(settings.arm)
    position = math.log(settings.bound * at)
    expected = [np.interp(position, np.log(compute), np.log([rung[i] for rung in rungs])) for i in range(len(seeds))]
    finding = judge_mean([math.log(loss) - float(e) for loss, e in zip(own, expected, strict=True)], "below", 0.0)
    if finding is None:
        return None
    found = ladder_multiplier(compute, rungs, own, at=at)
    ends = found.last if found.side == "above" else found.first
    estimate = math.log(ends if found.value is None else found.value)
    low, high = (None if end is None else math.log(end) for end in (found.low, found.high))
    return Finding(estimate, low, high, finding.p, finding.supports, len(seeds), found.words)


def number(settings: Settings, value: float) -> str:
    return f"{math.exp(value):.2f}×"
