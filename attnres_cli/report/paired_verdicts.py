"""May a sentence be said about two arms of several runs, and which one.

Arms are paired by seed. Three kinds of outcome, never mixed up:

    shown       "better" or "worse": the paired difference of the loss at the end of the schedule is not zero, by
                Student's t, corrected over all arms that were tested (Holm); or "equal": the same to the last bit
    not shown   "not shown": there are enough pairs, and the difference may be zero
    no verdict  "too few" pairs, "unfinished" runs, "unfair" pairs, or "diverged": runs that leave too few pairs, or are
                of the arm that would be better by its other runs; or "trials" that chose learning rates
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from attnres_cli.analysis.multiple import holm
from attnres_cli.analysis.paired import FEWEST_PAIRS, PairedDifference, paired_difference
from attnres_cli.analysis.power import smallest_detectable
from attnres_cli.report.arms import Arm
from attnres_cli.report.budgets import BUDGETS, AtEqual, Budget, at_equal
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.origins import TRIALS
from attnres_cli.report.pairing import Pairing, named, why_unfair
from attnres_cli.report.phrases import counted, interval, listed, nats, probability, times
from attnres_cli.report.rates import tuning_caveat
from attnres_cli.runs.fairness import Difference

ALPHA = 0.05
POWER = 0.8
Outcome = Literal["better", "worse", "equal", "not shown", "too few", "unfinished", "unfair", "diverged", "trials"]
SHOWN: tuple[Outcome, ...] = ("better", "worse", "equal")
NO_VERDICT: tuple[Outcome, ...] = ("too few", "unfinished", "unfair", "diverged", "trials")


@dataclass(frozen=True)
class PairedVerdict:
    """What may be said about one arm against the baseline.

    difference: loss of the arm minus the baseline's at the end of the schedule, over `seeds`; None below two pairs.
    p_holm: corrected over `tested` arms; None for an arm that was not tested. smallest_detectable: the difference that
    as many pairs with this spread show with probability POWER. at_equal: the same pairs at equal budgets. survives: per
    budget whether the sign is shown there, too; None where that is not known or nothing was shown at equal tokens.
    reasons: why there is no verdict. caveats: sentences that belong to the finding. exploratory: why it is exploratory:
    runs that a study did not plan, seeds that were added when results were there; empty where it is not.
    """

    arm: str
    baseline: str
    outcome: Outcome
    sentence: str = ""
    seeds: tuple[int, ...] = ()
    tokens: int | None = None
    difference: PairedDifference | None = None
    p_holm: float | None = None
    tested: int = 0
    smallest_detectable: float | None = None
    at_equal: tuple[AtEqual, ...] = ()
    survives: Mapping[Budget, bool | None] | None = None
    reasons: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    exploratory: tuple[str, ...] = ()

    @property
    def has_verdict(self) -> bool:
        return self.outcome not in NO_VERDICT

    def to_dict(self) -> dict[str, Any]:
        because = {"exploratory": bool(self.exploratory), "exploratory_because": self.exploratory}
        return {"kind": _kind(self.outcome), **asdict(self), **because}


def paired_verdicts(comparison: Comparison) -> list[PairedVerdict]:
    """One verdict for every arm but the baseline."""
    found = [_measured(comparison, arm) for arm in comparison.others]
    tested = [index for index, each in enumerate(found) if each.outcome == "not shown" and each.difference]
    corrected = holm([found[index].difference.p for index in tested])  # type: ignore[union-attr]
    survivals = {budget: _corrected_budget(found, tested, budget) for budget in BUDGETS}
    for index, p in zip(tested, corrected, strict=True):
        survives = {budget: survivals[budget][index] for budget in BUDGETS}
        found[index] = _judged(comparison, found[index], p, len(tested), survives)
    return [replace(each, sentence=_sentence(each)) for each in found]


# ------------------------------------------------------------------ figures


def _measured(comparison: Comparison, arm: Arm) -> PairedVerdict:
    """The arm with its figures. Its outcome is why it cannot be tested, or "not shown" for one that will be."""
    pairing = comparison.pairings[arm.label]
    pairs = pairing.pairs
    difference = paired_difference(*zip(*(pair.losses for pair in pairs), strict=True)) if len(pairs) > 1 else None
    outcome, reasons = _refusal(comparison, pairing)
    return PairedVerdict(
        arm=arm.label,
        baseline=comparison.baseline.label,
        outcome=outcome,
        seeds=tuple(pair.seed for pair in pairs),
        tokens=pairs[0].ours.horizon_tokens if pairs else None,
        difference=difference,
        at_equal=()
        if difference is None
        else tuple(at_equal(comparison, arm, pairs, difference, budget) for budget in BUDGETS),
        reasons=reasons,
    )


def _judged(
    comparison: Comparison, found: PairedVerdict, p: float, tested: int, survives: Mapping[Budget, bool | None]
) -> PairedVerdict:
    """Whether the difference is shown among all that were tested."""
    difference = found.difference
    assert difference is not None, "tested"
    pairing = comparison.pairings[found.arm]
    found = replace(
        found,
        p_holm=p,
        tested=tested,
        smallest_detectable=smallest_detectable(
            difference.standard_deviation, difference.n, power=POWER, alpha=ALPHA / tested
        ),
        caveats=tuple(_caveats(comparison, pairing)),
        exploratory=tuple(_why_exploratory(comparison, pairing)),
    )
    if not any(difference.differences):
        return replace(found, outcome="equal")
    if p >= ALPHA:
        return found
    better = difference.mean < 0
    favoured = pairing.arm if better else pairing.baseline
    lost = pairing.diverged(favoured)
    if lost:
        names = listed([run.label for run in lost])
        reason = (
            f"{names} diverged, and {favoured.label} would be the better arm by its other runs"
        )  # fmt: skip
        return replace(found, outcome="diverged", reasons=(reason,), caveats=())
    return replace(found, outcome="better" if better else "worse", survives=dict(survives))


def _refusal(comparison: Comparison, pairing: Pairing) -> tuple[Outcome, tuple[str, ...]]:
    """Why an arm cannot be tested; "not shown" and no reasons where it can."""
    if comparison.origins.are_trials((*pairing.baseline.runs, *pairing.arm.runs)):
        return "trials", (TRIALS,)
    unended = [f"{run.label} {why}" for run, why in pairing.unended]
    going_on = [f"{run.label} is {run.where_it_stands()}" for run in pairing.running]
    for arm in (pairing.baseline, pairing.arm):
        going_on += [f"{name} is planned and has not begun" for name in comparison.plan.waiting.get(arm.label, ())]
    if going_on:
        early = "looking before the end, and again, finds differences that are not there"
        return "unfinished", (f"{listed(going_on)}; {early}",)
    n = len(pairing.pairs)
    if n >= FEWEST_PAIRS:
        return "not shown", ()
    missing = counted(FEWEST_PAIRS - n, "more pair")
    reasons = [f"{counted(n, 'pair')}, and fewer than {FEWEST_PAIRS} never give one: {missing} at least"]
    if pairing.unfair:
        seeds = listed([str(seed) for seed, _ in pairing.unfair])
        reasons += [f"seed {seeds}: {reason}" for reason in why_unfair(_common(pairing))]
    if unended:
        reasons.append(listed(unended))
    if pairing.alone:
        reasons.append(f"without a partner: {listed([run.label for run, _ in pairing.alone])}")
    outcome: Outcome = "too few"
    if pairing.unfair and n + len(pairing.unfair) >= FEWEST_PAIRS:
        outcome = "unfair"
    elif unended:
        all_diverged = all(run.status == "diverged" for run, _ in pairing.unended)
        outcome = "diverged" if all_diverged else "unfinished"
    return outcome, tuple(reasons)


def _common(pairing: Pairing) -> list[Difference]:
    """Every field that makes a pair unfair, with the values of the first such pair."""
    found: dict[str, Difference] = {}
    for _, differences in pairing.unfair:
        for difference in differences:
            found.setdefault(difference.key, difference)
    return list(found.values())


def _why_exploratory(comparison: Comparison, pairing: Pairing) -> list[str]:
    found = list(comparison.origins.beyond_plan([run for pair in pairing.pairs for run in (pair.theirs, pair.ours)]))
    if not comparison.plan.added_seeds.isdisjoint(pair.seed for pair in pairing.pairs):
        found.append("seeds were added after results were there, and adding seeds until something is shown finds "
                     "differences where there are none")  # fmt: skip
    return found


def _caveats(comparison: Comparison, pairing: Pairing) -> list[str]:
    found = []
    if pairing.unended:
        lost = listed([f"{run.label} {why}" for run, why in pairing.unended])
        found.append(f"Left out with its partner: {lost}; runs that are lost can favour the arm that loses them.")
    if pairing.unfair:
        seeds = listed([str(seed) for seed, _ in pairing.unfair])
        found.append(f"Left out: seed {seeds}, where the pair differs in {named(_common(pairing))}.")
    tuned = tuning_caveat(comparison, pairing.arm)
    return found if tuned is None else [*found, tuned]


def _corrected_budget(
    found: Sequence[PairedVerdict], tested: Sequence[int], budget: Budget
) -> dict[int, bool | None]:  # fmt: skip
    """For every tested arm whether its sign is shown at an equal budget, too, corrected over these arms."""
    known = {
        index: each.difference
        for index in tested
        for each in found[index].at_equal
        if each.budget == budget and each.difference
    }
    corrected = dict(zip(known, holm([difference.p for difference in known.values()]), strict=True))
    signs: dict[int, bool | None] = dict.fromkeys(tested)
    for index, difference in known.items():
        at_tokens = found[index].difference
        assert at_tokens is not None, "tested"
        signs[index] = corrected[index] < ALPHA and difference.mean * at_tokens.mean > 0
    return signs


# ------------------------------------------------------------------ words


def _kind(outcome: Outcome) -> str:
    """ "shown", "not shown" or "no verdict"."""
    return "shown" if outcome in SHOWN else "no verdict" if outcome in NO_VERDICT else "not shown"


def _sentence(verdict: PairedVerdict) -> str:
    if not verdict.has_verdict:
        return (
            f"{verdict.arm}: no verdict against {verdict.baseline} ({verdict.outcome}): {'; '.join(verdict.reasons)}."
        )
    difference = verdict.difference
    assert difference is not None, "tested"
    parts = [_finding(verdict, difference)]
    if verdict.outcome in ("better", "worse"):
        parts.append(_survival(verdict))
    if verdict.exploratory:
        parts.append(f"Exploratory: {'; '.join(verdict.exploratory)}.")
    return " ".join([*parts, *verdict.caveats])


def _finding(verdict: PairedVerdict, difference: PairedDifference) -> str:
    assert verdict.tokens is not None, "tested"
    assert verdict.p_holm is not None, "tested"
    assert verdict.smallest_detectable is not None, "tested"
    end = f"at {verdict.tokens:,} tokens, the end of the schedule"
    pairs = counted(difference.n, "pair")
    if verdict.outcome == "equal":
        same = f"the same validation loss to the last bit in all {pairs} {end}"
        return f"{verdict.arm}: equal to {verdict.baseline}: {same}."
    p = f"p {probability(difference.p)}"
    if verdict.tested > 1:
        p += f", p {probability(verdict.p_holm)} after Holm's correction over {verdict.tested} arms"
    figures = (
        f"{nats(difference.mean, signed=True)} nats {end} (95 % interval {interval(difference.low, difference.high)}; "
        f"paired t, {pairs}, {p})"
    )
    finds = f"{nats(verdict.smallest_detectable)} nats or more"
    if verdict.outcome == "not shown":
        alone = "; alone it would be shown" if difference.p < ALPHA else ""
        return (
            f"{verdict.arm}: ~ no difference from {verdict.baseline} is shown: {figures}{alone}. With this spread "
            f"{pairs} find a difference of {finds} four times in five; a smaller one may be there."
        )
    return (
        f"{verdict.arm}: shown to be {verdict.outcome} than {verdict.baseline}: {figures}. With this spread {pairs} "
        f"find {finds} four times in five."
    )


def _survival(verdict: PairedVerdict) -> str:
    """One sentence: whether the sign survives equal FLOPs and equal seconds, too; and one that says how it was read."""
    survives = verdict.survives or {}
    kept = ["equal tokens", *(f"equal {budget}" for budget, held in survives.items() if held)]
    lost = [f"equal {budget}" for budget, held in survives.items() if held is False]
    unknown = [f"equal {budget}" for budget, held in survives.items() if held is None]
    if not lost and not unknown:
        text = "The sign survives all three: equal tokens, equal FLOPs, equal seconds."
    else:
        clauses = [f"holds at {' and '.join(kept)}"]
        clauses += [f"but is not shown at {' and '.join(lost)}"] if lost else []
        clauses += [f"{'and' if lost else 'but'} is not known at {' and '.join(unknown)}"] if unknown else []
        text = f"The sign {', '.join(clauses)}."
    return " ".join([text, *_how_read(verdict)])


def _how_read(verdict: PairedVerdict) -> list[str]:
    costs = [f"{times(each.cost)} the {each.budget}" for each in verdict.at_equal if each.cost]
    if not costs:
        return []
    takes = f"{verdict.arm} takes {' and '.join(costs)} per token"
    early = [each for each in verdict.at_equal if each.tokens is not None]
    if not early:
        return [f"{takes}."]
    where = " and ".join(f"at {each.tokens:,} tokens" for each in early)
    return [
        f"{takes}, so {early[0].early} is read early there ({where}), before its learning rate had decayed: that can "
        "hide an advantage, not invent one."
    ]
