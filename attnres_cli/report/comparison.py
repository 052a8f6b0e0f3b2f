"""Several arms beside one baseline: what the tables of a comparison are built from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.group_plan import Plan
from attnres_cli.report.grouping import Grouping, SetAside
from attnres_cli.report.origins import Origins
from attnres_cli.report.pairing import Pairing, pairing
from attnres_cli.report.same_losses import same_losses
from attnres_cli.runs import metrics
from attnres_cli.runs.fairness import Difference, differences


@dataclass(frozen=True)
class SideBySide:
    """An interleaved bench of the arms, as bench/ wrote it (schema attnres.bench/1), its first arm the baseline.

    arm_names: the bench's name for each arm by its label; arms that cost the same share one. measured_now: False when
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
    """arms: in the user's order. bench: None where there is none, and then bench_note says why.

    by_seed: whether the arms are residual configurations with several runs, paired by seed; otherwise every arm is a
    single run under a letter. set_aside, announcements: see Grouping. plan: what is known of runs that are not there.
    origins: the studies and tunes that the runs belong to.
    """

    arms: Sequence[Arm]
    baseline: Arm
    bench: SideBySide | None = None
    bench_note: str | None = None
    by_seed: bool = False
    set_aside: Sequence[SetAside] = ()
    announcements: Sequence[str] = ()
    plan: Plan = field(default_factory=Plan)
    origins: Origins = field(default_factory=Origins)

    @classmethod
    def of_runs(
        cls,
        runs: Sequence[ComparedRun],
        baseline: int = 0,
        bench: SideBySide | None = None,
        bench_note: str | None = None,
    ) -> Comparison:
        """Single runs, each an arm of its own. baseline: its place among them."""
        arms = [Arm.of_run(run) for run in runs]
        return cls(arms, arms[baseline], bench, bench_note)

    @classmethod
    def of_groups(
        cls, grouping: Grouping, bench: SideBySide | None = None, bench_note: str | None = None
    ) -> Comparison:  # fmt: skip
        """Arms of several runs."""
        assert grouping.baseline is not None, "no arm at all"
        return cls(
            grouping.arms, grouping.baseline, bench, bench_note, True, grouping.set_aside, grouping.announcements
        )  # fmt: skip

    @property
    def noun(self) -> str:
        """What a row of a table is."""
        return "arm" if self.by_seed else "run"

    @property
    def others(self) -> list[Arm]:
        """Every arm but the baseline."""
        return [arm for arm in self.arms if arm is not self.baseline]

    @property
    def runs(self) -> list[ComparedRun]:
        """The runs of all arms; those that were set aside are not among them."""
        return [run for arm in self.arms for run in arm.runs]

    @cached_property
    def pairings(self) -> dict[str, Pairing]:
        """How the runs of every other arm meet the baseline's, by the arm's label."""
        return {arm.label: pairing(arm, self.baseline) for arm in self.others}

    @cached_property
    def same_losses(self) -> list[tuple[str, str, int]]:
        """Labels of two arms that are one model, with the number of their pairs."""
        return same_losses(self.arms)

    @cached_property
    def equal_tokens(self) -> int | None:
        """The largest training-token count at which all runs were evaluated; runs without any evaluation do not
        count."""
        return metrics.largest_equal_tokens(run.evaluations for run in self.runs if run.last_evaluation)

    @cached_property
    def differences(self) -> list[Difference]:
        """What differs between the runs that say what they are; a run without a preset and a manifest differs in
        nothing."""
        return differences(*(run.facts for run in self.readable))

    @cached_property
    def readable(self) -> list[ComparedRun]:
        return [run for run in self.runs if run.manifest or run.resolved]

    def seconds_ratio(self, arm: Arm) -> tuple[float, float] | None:
        """The interval (low, high) of the time of a training step over the baseline's, from the bench."""
        timed = self.bench.arm(arm.label) if self.bench else None
        if timed is None:
            return None
        ratio = timed["derived"]["wall_ratio"]
        return ratio["low"], ratio["high"]

    def flops_ratio(self, arm: Arm) -> tuple[float, float] | None:
        """Training FLOPs per token over the baseline's, exact: low = high. None where a manifest does not say."""
        ours, theirs = (each.lead.training_flops_per_token for each in (arm, self.baseline))
        return (ours / theirs, ours / theirs) if ours and theirs else None
