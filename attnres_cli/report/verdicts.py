"""May a sentence be said about two single runs, and which one. Arms of several runs: paired_verdicts.py.

A verdict needs two finished runs, a fair pair, and an evaluation of both at the end of the schedule. With one run of
each it says so: one seed shows no spread, so no interval, no significance and no percentage. Everything else is a
refusal with its reasons; the tables are printed either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from attnres_cli.errors import plural
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.pairing import why_not_ended, why_unfair
from attnres_cli.report.phrases import nats, times
from attnres_cli.report.rates import tuning_caveat
from attnres_cli.runs.fairness import unfair_differences
from attnres_cli.runs.metrics import number

Outcome = Literal["lower", "higher", "equal", "refused"]
Budget = Literal["FLOPs", "seconds"]
BUDGETS: tuple[Budget, ...] = ("FLOPs", "seconds")


@dataclass(frozen=True)
class Verdict:
    """What may be said about one run against the baseline.

    delta_nats: validation loss of the run minus the baseline's at `tokens`, the end of the schedule; None when refused.
    reasons: why it was refused. holds_at_equal: per budget, whether the sign was still seen when the dearer run had
    to stop at the budget of the cheaper one; None where that is not known. exploratory: which runs a study did not
    plan, and why, and what of a plan was left out; empty where it is not exploratory.
    """

    label: str
    baseline: str
    outcome: Outcome
    sentence: str
    delta_nats: float | None = None
    tokens: int | None = None
    reasons: tuple[str, ...] = ()
    holds_at_equal: Mapping[Budget, bool | None] | None = None
    exploratory: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        because = {"exploratory": bool(self.exploratory), "exploratory_because": self.exploratory}
        return {**asdict(self), **because}


def verdicts(comparison: Comparison) -> list[Verdict]:
    """One verdict for every run but the baseline."""
    return [_verdict(_Two(comparison, index)) for index in range(len(comparison.others))]


@dataclass(frozen=True)
class _Two:
    """Two runs: one of the others, by its place among them, and the baseline."""

    comparison: Comparison
    index: int

    @property
    def run(self) -> ComparedRun:
        return self.comparison.others[self.index].lead

    @property
    def baseline(self) -> ComparedRun:
        return self.comparison.baseline.lead

    def by_loss(self, delta: float) -> tuple[ComparedRun, ComparedRun]:
        """(the run with the lower loss, the other one)"""
        return (self.run, self.baseline) if delta < 0 else (self.baseline, self.run)

    def cost_of_better(self, delta: float, budget: Budget) -> tuple[float, float] | None:
        """(low, high) of what the better run costs per token, over the other one's cost."""
        arm = self.comparison.others[self.index]
        ratio = self.comparison.flops_ratio(arm) if budget == "FLOPs" else self.comparison.seconds_ratio(arm)
        if ratio is None or delta < 0:
            return ratio
        return 1 / ratio[1], 1 / ratio[0]


def _verdict(two: _Two) -> Verdict:
    run, baseline = two.run, two.baseline
    origins = two.comparison.origins
    reasons = [*origins.without_verdict((baseline, run))] or _reasons_to_refuse(baseline, run)
    if reasons:
        sentence = f"No verdict on {run.title} against {baseline.title}: {'; '.join(reasons)}."
        return Verdict(run.label, baseline.label, "refused", sentence, reasons=tuple(reasons))
    tokens, ours, theirs = run.horizon_tokens, run.end_loss, baseline.end_loss
    assert tokens is not None, "refused above"
    assert ours is not None, "refused above"
    assert theirs is not None, "refused above"
    delta = ours - theirs
    holds = {budget: _holds(two, delta, budget) for budget in BUDGETS}
    outcome: Outcome = "equal" if delta == 0 else "lower" if delta < 0 else "higher"
    sentences = [_finding(run, baseline, delta, tokens)]
    if delta:
        sentences.append(_budgets(two, delta, holds))
    both = [baseline, run]
    exploratory = (*origins.beyond_plan(both), *origins.left_out(both, two.comparison.arms))
    if exploratory:
        sentences.append(f"Exploratory: {'; '.join(exploratory)}.")
    tuned = tuning_caveat(two.comparison, two.comparison.others[two.index])
    sentences += [] if tuned is None else [tuned]
    return Verdict(
        run.label,
        baseline.label,
        outcome,
        " ".join(sentences),
        delta,
        tokens,
        holds_at_equal=holds,
        exploratory=exploratory,
    )


def _reasons_to_refuse(baseline: ComparedRun, run: ComparedRun) -> list[str]:
    broken = [f"run {each.label} cannot be read" for each in (baseline, run) if not each.is_readable]
    if broken:
        return broken
    both = (baseline, run)
    reasons = [f"run {each.label} {why_not_ended(each)}" for each in both if not each.is_finished]
    reasons += why_unfair(unfair_differences(baseline.facts, run.facts))
    if not reasons:
        reasons += [f"run {each.label} {why}" for each in both if (why := why_not_ended(each))]
    return reasons


def _finding(run: ComparedRun, baseline: ComparedRun, delta: float, tokens: int) -> str:
    end = f"at {tokens:,} tokens ({run.steps:,} {plural(run.steps or 0, 'step')}), the end of the schedule"
    if delta == 0:
        return f"{run.title} and {baseline.title} have the same validation loss {end}, in one run of each."
    direction = "lower" if delta < 0 else "higher"
    return (
        f"The validation loss of {run.title} is {direction} by {nats(abs(delta))} nats than that of {baseline.title} "
        f"{end}, in one run of each; one seed shows no spread."
    )


def _holds(two: _Two, delta: float, budget: Budget) -> bool | None:
    """Whether the better run is still ahead when it may spend no more than the other one spent; None when unknown.

    A better run that costs more (at the upper end of what its cost may be) is read at its last evaluation within the
    budget; without one that is not known. Its learning rate had not decayed there, so this can hide an advantage but
    not invent one.
    """
    if delta == 0:
        return None
    better, worse = two.by_loss(delta)
    ratio = two.cost_of_better(delta, budget)
    if ratio is None or better.horizon_tokens is None:
        return None
    if ratio[1] <= 1:
        return True
    reached = number(better.evaluation_within(better.horizon_tokens / ratio[1]), "loss")
    return None if reached is None or worse.end_loss is None else reached < worse.end_loss


def _budgets(two: _Two, delta: float, holds: Mapping[Budget, bool | None]) -> str:
    """What becomes of the sign at equal FLOPs and at equal seconds."""
    better, _ = two.by_loss(delta)
    parts = []
    for budget, held in holds.items():
        ratio = two.cost_of_better(delta, budget)
        if held is None or ratio is None:
            parts.append(f"At equal {budget}: unknown, {_why_unknown(better, ratio, budget)}.")
        else:
            ahead = f"{better.label} still ahead" if held else f"{better.label} no longer ahead"
            parts.append(f"At equal {budget} ({better.label} takes {times(ratio)} per token): {ahead}.")
    return " ".join(parts)


def _why_unknown(better: ComparedRun, ratio: tuple[float, float] | None, budget: Budget) -> str:
    if ratio is not None:
        return (
            f"since {better.label} takes {times(ratio)} per token and has no evaluation before it had spent as much as "
            "the other (eval.every_steps)"
        )
    return "since these arms were not timed beside each other" if budget == "seconds" else "since a run has no count"
