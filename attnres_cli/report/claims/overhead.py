"""What an arm costs beside the baseline in one interleaved bench, against a bound: the sign test over paired rounds."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, Field

from attnres_cli.analysis.claims import AssumedRounds, Finding, judge_median
from attnres_cli.report.evidence import Evidence, Prior


class Settings(BaseModel):
    """The claim: the median ratio of the arm's time to the first arm's is below `bound`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bench: str = Field(description="key of the bench in the plan")
    arm: str
    bound: float = Field(gt=0)


def runs(settings: Settings) -> tuple[str, ...]:
    return ()


def benches(settings: Settings) -> tuple[str, ...]:
    return (settings.bench,)


def assumed(settings: Settings, prior: Prior, samples: int) -> AssumedRounds:
    """prior: of the ratio, whose logarithm a round scatters about. samples: rounds of the bench."""
    return AssumedRounds(math.log(prior.effect / settings.bound), prior.standard_deviation, samples)


def judge(settings: Settings, evidence: Evidence) -> Finding | None:
    bench = evidence.benches.get(settings.bench)
    if bench is None:
        return None
    clock = f"{bench['clock']}_seconds"
    first = bench["arms"][0]
    arm = next(each for each in bench["arms"] if each["name"] == settings.arm)
    ratios = [ours / theirs for ours, theirs in zip(arm[clock], first[clock], strict=True)]
    ratio = arm["ratio"]
    return judge_median(ratios, settings.bound, (ratio["median"], ratio["low"], ratio["high"]))


def number(settings: Settings, value: float) -> str:
    return f"{value:.3f}×"
