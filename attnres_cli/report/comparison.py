"""Several runs beside one baseline: what the tables of a comparison are built from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnres_cli.report.arms import Arm
from attnres_cli.runs import metrics
from attnres_cli.runs.fairness import Difference, differences
from attnres_cli.runs.metrics import number


@dataclass(frozen=True)
class SideBySide:
    """An interleaved bench of the arms, as bench/ wrote it (schema attnres.bench/1), its first arm the baseline.

    arm_names: the bench's name for each run by its label; runs that cost the same share one. measured_now: False when
    it was read from disk.
    """

    result: Mapping[str, Any]
    arm_names: Mapping[str, str]
    measured_now: bool = True

    def arm(self, label: str) -> Mapping[str, Any] | None:
        name = self.arm_names.get(label)
        return next((arm for arm in self.result["arms"] if arm["name"] == name), None)


@dataclass(frozen=True)
class Comparison:
    """arms: in the user's order. bench: None where there is none, and then bench_note says why."""

    arms: Sequence[Arm]
    baseline: Arm
    bench: SideBySide | None = None
    bench_note: str | None = None

    @property
    def others(self) -> list[Arm]:
        """Every arm but the baseline."""
        return [arm for arm in self.arms if arm is not self.baseline]

    @property
    def equal_tokens(self) -> int | None:
        """The largest training-token count at which all runs were evaluated; runs without any evaluation do not
        count."""
        return metrics.largest_equal_tokens(arm.evaluations for arm in self.arms if arm.last_evaluation)

    @property
    def differences(self) -> list[Difference]:
        """What differs between the runs that say what they are; a run without a preset and a manifest differs in
        nothing."""
        return differences(*(arm.facts for arm in self.readable))

    @property
    def readable(self) -> list[Arm]:
        return [arm for arm in self.arms if arm.manifest or arm.resolved]

    def seconds_ratio(self, arm: Arm) -> tuple[float, float] | None:
        """The interval (low, high) of the time of a training step over the baseline's, from the bench."""
        timed = self.bench.arm(arm.label) if self.bench else None
        if timed is None:
            return None
        ratio = timed["derived"]["wall_ratio"]
        return ratio["low"], ratio["high"]

    def flops_ratio(self, arm: Arm) -> tuple[float, float] | None:
        """Training FLOPs per token over the baseline's, exact: low = high. None where a manifest does not say."""
        ours, theirs = (_training_flops_per_token(each) for each in (arm, self.baseline))
        return (ours / theirs, ours / theirs) if ours and theirs else None


def _training_flops_per_token(arm: Arm) -> float | None:
    flops = arm.manifest.get("flops")
    return number(flops, "training_per_token") if isinstance(flops, Mapping) else None
