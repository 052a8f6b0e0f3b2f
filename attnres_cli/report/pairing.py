"""Pairs of runs with the same seed: one of an arm, one of the baseline's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.values import spelt_out
from attnres_cli.runs.fairness import Difference, Rule, unfair_differences


@dataclass(frozen=True)
class Pair:
    """Two finished runs that differ in nothing but their residual configuration and what may be tuned."""

    seed: int
    ours: ComparedRun
    theirs: ComparedRun

    @property
    def losses(self) -> tuple[float, float]:
        """Both losses at the end of the schedule."""
        ours, theirs = self.ours.end_loss, self.theirs.end_loss
        assert ours is not None, "a pair ended"
        assert theirs is not None, "a pair ended"
        return ours, theirs


@dataclass(frozen=True)
class Pairing:
    """How the runs of an arm meet those of the baseline.

    unended: runs of a would-be pair that did not reach the end of their schedule, with a sentence each. unfair: by
    seed, the differences that forbid the pair. alone: runs without a partner. running: runs of either arm that go on
    right now.
    """

    arm: Arm
    baseline: Arm
    pairs: tuple[Pair, ...]
    unended: tuple[tuple[ComparedRun, str], ...]
    unfair: tuple[tuple[int, tuple[Difference, ...]], ...]
    alone: tuple[tuple[ComparedRun, str], ...]

    @property
    def running(self) -> tuple[ComparedRun, ...]:
        return tuple(run for run in (*self.baseline.runs, *self.arm.runs) if run.status == "running")

    def diverged(self, arm: Arm) -> tuple[ComparedRun, ...]:
        """The runs of one of the two arms that cost a pair by diverging."""
        return tuple(
            run for run, _ in self.unended if run.status == "diverged" and any(run is each for each in arm.runs)
        )


def pairing(arm: Arm, baseline: Arm) -> Pairing:
    ours, theirs = _by_seed(arm), _by_seed(baseline)
    pairs: list[Pair] = []
    unended: list[tuple[ComparedRun, str]] = []
    unfair: list[tuple[int, tuple[Difference, ...]]] = []
    for seed in sorted(ours.keys() & theirs.keys()):
        both = (theirs[seed], ours[seed])
        not_ended = [(run, why) for run in both if (why := why_not_ended(run)) is not None]
        differing = unfair_differences(theirs[seed].facts, ours[seed].facts)
        unended += not_ended
        if differing:
            unfair.append((seed, tuple(differing)))
        elif not not_ended:
            pairs.append(Pair(seed, ours[seed], theirs[seed]))
    return Pairing(arm, baseline, tuple(pairs), tuple(unended), tuple(unfair), tuple(_alone(arm, baseline)))


def why_not_ended(run: ComparedRun) -> str | None:
    """Why a run has no loss at the end of its schedule; None where it has."""
    if not run.is_finished:
        return f"is not finished ({run.where_it_stands()})"
    return "was not evaluated at the end of its schedule" if run.end_loss is None else None


def why_unfair(found: Sequence[Difference]) -> list[str]:
    """One clause about the models' shapes, one about everything else that must be equal; empty for a fair pair."""
    shapes = [difference for difference in found if difference.rule is Rule.SHAPE]
    others = [difference for difference in found if difference.rule is Rule.EQUAL]
    reasons = []
    if shapes:
        reasons.append(f"the models differ in shape, not only in how they connect layers ({named(shapes)})")
    if others:
        reasons.append(f"the pair is unfair, it differs in {named(others)}")
    return reasons


def named(found: Sequence[Difference]) -> str:
    """ "train.seed (0 / 1), train.schedule (cosine / wsd)"."""
    return ", ".join(f"{difference.label} ({' / '.join(map(spelt_out, difference.values))})" for difference in found)


def _by_seed(arm: Arm) -> dict[int, ComparedRun]:
    return {run.seed: run for run in arm.runs if run.seed is not None}


def _alone(arm: Arm, baseline: Arm) -> list[tuple[ComparedRun, str]]:
    found = []
    for mine, other in ((arm, baseline), (baseline, arm)):
        partners = _by_seed(other)
        for run in mine.runs:
            if run.seed is None:
                found.append((run, "it does not say its seed"))
            elif run.seed not in partners:
                found.append((run, f"{other.label} has no run with seed {run.seed}"))
    return found
