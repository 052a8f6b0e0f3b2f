"""What the oracles of `attnres compare` are asked about: arms of runs beside a baseline, and the stored bench.

A comparison of single runs is one of arms with one run each.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.recomputed.raw import Row, Run
from tests.recomputed.statistics import mean_or_none, median_interval


@dataclass(frozen=True)
class Arm:
    """label: what the program calls it; title: how tables show it."""

    label: str
    title: str
    runs: tuple[Run, ...]

    @property
    def ended(self) -> list[Run]:
        return [run for run in self.runs if run.end is not None]

    @property
    def counted(self) -> list[Run]:
        """Those that means are over: the runs that ended, or all where none did."""
        return self.ended or list(self.runs)

    def mean_at_end(self, figure: Callable[[Row], float | None]) -> float | None:
        """The mean over the runs that ended of something in their last row."""
        return mean_or_none([figure(run.end) for run in self.ended if run.end is not None])

    def observed(self, observer: str, key: str) -> list[float]:
        """A list of numbers that an observer left, place by place the mean over the runs that have one."""
        found = [summary[key] for run in self.counted if (summary := run.observed(observer)) is not None]
        return [sum(values) / len(values) for values in zip(*found, strict=True)]


@dataclass(frozen=True)
class Timing:
    """The step of one arm in the bench. ratio: to the baseline's within a round: median, low, high."""

    seconds: float
    ratio: tuple[float, float, float]
    peak_bytes: int


@dataclass(frozen=True)
class Compared:
    """arms: in the order of the tables. baseline: the label of one of them. bench: the stored file, if there is one;
    its arms are in the order of `timed`, labels that cost the same share one."""

    arms: tuple[Arm, ...]
    baseline: str
    bench: Path | None = None
    timed: tuple[tuple[str, ...], ...] = field(default=())

    def arm(self, label: str) -> Arm:
        return next(arm for arm in self.arms if arm.label == label)

    @property
    def base(self) -> Arm:
        return self.arm(self.baseline)

    @property
    def others(self) -> list[Arm]:
        return [arm for arm in self.arms if arm.label != self.baseline]

    @property
    def runs(self) -> list[Run]:
        return [run for arm in self.arms for run in arm.runs]

    @property
    def equal_tokens(self) -> int | None:
        """The most training tokens at which every run was evaluated that was evaluated at all."""
        each = [{row["tokens"] for row in run.evaluated} for run in self.runs if run.evaluated]
        common = set.intersection(*each) if each else set()
        return max(common, default=None)

    @cached_property
    def timings(self) -> dict[str, Timing]:
        """By label, from the samples of the bench; its derived figures are not looked at."""
        if self.bench is None:
            return {}
        arms: list[dict[str, Any]] = json.loads(self.bench.read_text())["bench"]["arms"]
        base = arms[0]["wall_seconds"]
        found = {}
        for labels, arm in zip(self.timed, arms, strict=True):
            seconds = arm["wall_seconds"]
            ratios = [ours / theirs for ours, theirs in zip(seconds, base, strict=True)]
            timing = Timing(
                median_interval(seconds)[0], median_interval(ratios), arm["resident_bytes"] + arm["step_peak_bytes"]
            )
            found |= dict.fromkeys(labels, timing)
        return found

    def seconds_ratio(self, arm: Arm) -> tuple[float, float] | None:
        """What a token of the arm takes of time over one of the baseline: low and high."""
        timing = self.timings.get(arm.label)
        return None if timing is None else timing.ratio[1:]

    def flops_ratio(self, arm: Arm) -> tuple[float, float]:
        """The same of FLOPs, where it is one number."""
        ours, theirs = (each.counted[0].manifest["flops"]["training_per_token"] for each in (arm, self.base))
        return ours / theirs, ours / theirs
