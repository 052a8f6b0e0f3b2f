"""May a sentence be said about two runs, and which one: the only place where a comparison concludes anything.

A verdict needs two finished runs, a fair pair, and an evaluation of both at the end of the schedule. With one run of
each it says so: one seed shows no spread, so no interval, no significance and no percentage. Everything else is a
refusal with its reasons; the tables are printed either way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from attnres_cli.report.arms import Arm
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.values import spelt_out
from attnres_cli.runs.fairness import Difference, Rule, allowed_differences, unfair_differences
from attnres_cli.runs.files import Row
from attnres_cli.runs.metrics import at_tokens, number

Outcome = Literal["lower", "higher", "equal", "refused"]
Budget = Literal["FLOPs", "seconds"]
BUDGETS: tuple[Budget, ...] = ("FLOPs", "seconds")


@dataclass(frozen=True)
class Verdict:
    """What may be said about one run against the baseline.

    delta_nats: validation loss of the run minus the baseline's at `tokens`, the end of the schedule; None when refused.
    reasons: why it was refused. holds_at_equal: per budget, whether the sign was still seen when the dearer run had
    to stop at the budget of the cheaper one; None where that is not known.
    """

    label: str
    baseline: str
    outcome: Outcome
    sentence: str
    delta_nats: float | None = None
    tokens: int | None = None
    reasons: tuple[str, ...] = ()
    holds_at_equal: Mapping[Budget, bool | None] | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def verdicts(comparison: Comparison) -> list[Verdict]:
    """One verdict for every run but the baseline."""
    return [verdict(comparison, arm) for arm in comparison.others]


def verdict(comparison: Comparison, arm: Arm) -> Verdict:
    baseline = comparison.baseline
    reasons = _reasons_to_refuse(baseline, arm)
    if reasons:
        sentence = f"No verdict on {arm.title} against {baseline.title}: {'; '.join(reasons)}."
        return Verdict(arm.label, baseline.label, "refused", sentence, reasons=tuple(reasons))
    tokens = arm.horizon_tokens
    ours, theirs = (_loss_at(each, tokens) for each in (arm, baseline))
    assert tokens is not None, "refused above"
    assert ours is not None, "refused above"
    assert theirs is not None, "refused above"
    delta = ours - theirs
    holds = {budget: _holds(comparison, arm, delta, budget) for budget in BUDGETS}
    outcome: Outcome = "equal" if delta == 0 else "lower" if delta < 0 else "higher"
    sentences = [_finding(arm, baseline, delta, tokens)]
    if delta:
        sentences.append(_budgets(comparison, arm, delta, holds))
    tuned = [
        difference for difference in allowed_differences(baseline.facts, arm.facts) if difference.rule is Rule.TUNED
    ]
    if tuned:
        sentences.append(f"Fair only if each run has its own best value of {_named(tuned)}.")
    return Verdict(arm.label, baseline.label, outcome, " ".join(sentences), delta, tokens, holds_at_equal=holds)


def _reasons_to_refuse(baseline: Arm, arm: Arm) -> list[str]:
    broken = [f"run {each.label} cannot be read" for each in (baseline, arm) if not each.manifest or not each.resolved]
    if broken:
        return broken
    reasons = [
        f"run {each.label} is not finished ({each.where_it_stands()})"
        for each in (baseline, arm)
        if not each.is_finished
    ]
    unfair = unfair_differences(baseline.facts, arm.facts)
    shapes = [difference for difference in unfair if difference.rule is Rule.SHAPE]
    others = [difference for difference in unfair if difference.rule is Rule.EQUAL]
    if shapes:
        reasons.append(f"the models differ in shape, not only in how they connect layers ({_named(shapes)})")
    if others:
        reasons.append(f"the pair is unfair, it differs in {_named(others)}")
    if not reasons:
        reasons += [
            f"run {each.label} was not evaluated at the end of its schedule"
            for each in (baseline, arm)
            if _loss_at(each, each.horizon_tokens) is None
        ]
    return reasons


def _finding(arm: Arm, baseline: Arm, delta: float, tokens: int) -> str:
    end = f"at {tokens:,} tokens ({arm.steps:,} steps), the end of the schedule"
    if delta == 0:
        return f"{arm.title} and {baseline.title} have the same validation loss {end}, in one run of each."
    direction = "lower" if delta < 0 else "higher"
    return (
        f"The validation loss of {arm.title} is {direction} by {_nats(abs(delta))} nats than that of {baseline.title} "
        f"{end}, in one run of each; one seed shows no spread."
    )


def _nats(size: float) -> str:
    """Four decimals as in the tables; a difference that they would hide is written out."""
    return f"{size:.4f}" if size >= 0.00005 else f"{size:.1e}"


def _holds(comparison: Comparison, arm: Arm, delta: float, budget: Budget) -> bool | None:
    """Whether the better run is still ahead when it may spend no more than the other one spent; None when unknown.

    A better run that costs more (at the upper end of what its cost may be) is read at its last evaluation within the
    budget. Its learning rate had not decayed there, so this can hide an advantage but not invent one.
    """
    if delta == 0:
        return None
    better, worse = _by_loss(comparison, arm, delta)
    ratio = _cost_of_better(comparison, arm, delta, budget)
    if ratio is None or better.horizon_tokens is None:
        return None
    if ratio[1] <= 1:
        return True
    allowed_tokens = better.horizon_tokens / ratio[1]
    within = [row for row in better.evaluations if (number(row, "tokens") or 0.0) <= allowed_tokens]
    reached = number(within[-1], "loss") if within else None
    worse_loss = _loss_at(worse, worse.horizon_tokens)
    return reached is not None and worse_loss is not None and reached < worse_loss


def _by_loss(comparison: Comparison, arm: Arm, delta: float) -> tuple[Arm, Arm]:
    """(the run with the lower loss, the other one)"""
    return (arm, comparison.baseline) if delta < 0 else (comparison.baseline, arm)


def _cost_of_better(comparison: Comparison, arm: Arm, delta: float, budget: Budget) -> tuple[float, float] | None:
    """(low, high) of what the better run costs per token, over the other one's cost."""
    ratio = comparison.flops_ratio(arm) if budget == "FLOPs" else comparison.seconds_ratio(arm)
    if ratio is None or delta < 0:
        return ratio
    return 1 / ratio[1], 1 / ratio[0]


def _budgets(comparison: Comparison, arm: Arm, delta: float, holds: Mapping[Budget, bool | None]) -> str:
    """What becomes of the sign at equal FLOPs and at equal seconds."""
    better, _ = _by_loss(comparison, arm, delta)
    parts = []
    for budget, held in holds.items():
        ratio = _cost_of_better(comparison, arm, delta, budget)
        if held is None or ratio is None:
            parts.append(f"At equal {budget}: unknown.")
        else:
            low, high = (f"{limit:.3g}" for limit in ratio)
            cost = f"{low}×" if low == high else f"{low} to {high}×"
            ahead = f"{better.label} still ahead" if held else f"{better.label} no longer ahead"
            parts.append(f"At equal {budget} ({better.label} takes {cost} per token): {ahead}.")
    return " ".join(parts)


def _loss_at(arm: Arm, tokens: int | None) -> float | None:
    row: Row | None = at_tokens(arm.evaluations, tokens) if tokens is not None else None
    return number(row, "loss")


def _named(found: Sequence[Difference]) -> str:
    """ "train.seed (0 / 1), train.schedule (cosine / wsd)"."""
    return ", ".join(f"{difference.label} ({' / '.join(map(spelt_out, difference.values))})" for difference in found)
