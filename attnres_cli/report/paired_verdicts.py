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
from attnres_cli.report.left_out import LEFT_OUT, WAITED_FOR
from attnres_cli.report.paired_sentences import sentence
from attnres_cli.report.pairing import Pairing, named, why_unfair
from attnres_cli.report.phrases import counted, listed
from attnres_cli.report.rates import tuning_caveat
from attnres_cli.report.same_losses import in_words
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
    p_holm: corrected over `tested` arms; None for an arm that was not tested. counted_in: those of them that were not
    tested, because they are waited for or left out, and count with p = 1. smallest_detectable: the difference that
    as many pairs with this spread show with probability POWER. at_equal: the same pairs at equal budgets. survives: per
    budget whether the sign is shown there, too; None where that is not known or nothing was shown at equal tokens.
    reasons: why there is no verdict. caveats: sentences that belong to the finding. remarks: sentences that leave the
    finding as it is: the arm is another one under a second name. exploratory: why it is exploratory:
    runs that a study did not plan, planned ones that were left out, seeds that were added when results were there;
    empty where it is not.
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
    counted_in: tuple[str, ...] = ()
    smallest_detectable: float | None = None
    at_equal: tuple[AtEqual, ...] = ()
    survives: Mapping[Budget, bool | None] | None = None
    reasons: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
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
    counted_in = tuple(_counted_in(comparison, found))
    p_values = [found[index].difference.p for index in tested]  # type: ignore[union-attr]
    corrected = holm([*p_values, *(1.0 for _ in counted_in)])
    survivals = {budget: _corrected_budget(found, tested, len(counted_in), budget) for budget in BUDGETS}
    for index, p in zip(tested, corrected, strict=False):
        survives = {budget: survivals[budget][index] for budget in BUDGETS}
        found[index] = _judged(comparison, found[index], p, len(tested), counted_in, survives)
    return [replace(each, sentence=sentence(each)) for each in found]


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


def _counted_in(comparison: Comparison, found: Sequence[PairedVerdict]) -> list[str]:
    """Arms that were not tested and yet count in the correction: those that wait for runs, and those of the plan that
    were left out. Otherwise looking before an arm is there, or without it, would be easier than with it."""
    names = {}
    for verdict in found:
        arm = comparison.pairings[verdict.arm].arm
        if _going_on(comparison, comparison.pairings[verdict.arm]):
            names[verdict.arm] = WAITED_FOR
        elif verdict.outcome == "too few" and comparison.origins.lacks_seeds(arm):
            names[verdict.arm] = f"runs {LEFT_OUT}"
    names |= comparison.origins.arms_without(comparison.arms)
    return [f"{name} ({why})" for name, why in names.items()]


def _judged(
    comparison: Comparison,
    found: PairedVerdict,
    p: float,
    num_tested: int,
    counted_in: tuple[str, ...],
    survives: Mapping[Budget, bool | None],
) -> PairedVerdict:
    """Whether the difference is shown among all that were tested or count in."""
    difference = found.difference
    assert difference is not None, "tested"
    pairing = comparison.pairings[found.arm]
    tested = num_tested + len(counted_in)
    found = replace(
        found,
        p_holm=p,
        tested=tested,
        counted_in=counted_in,
        smallest_detectable=smallest_detectable(
            difference.standard_deviation, difference.n, power=POWER, alpha=ALPHA / tested
        ),
        caveats=tuple(_caveats(comparison, pairing)),
        remarks=tuple(
            f"{in_words(first, second, n)}."
            for first, second, n in comparison.same_losses
            if second == found.arm and first != found.baseline
        ),
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
    if spent := comparison.origins.without_verdict((*pairing.baseline.runs, *pairing.arm.runs)):
        return "trials", spent
    unended = [f"{run.label} {why}" for run, why in pairing.unended]
    if going_on := _going_on(comparison, pairing):
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


def _going_on(comparison: Comparison, pairing: Pairing) -> list[str]:
    """A clause for every run of the two arms that goes on, or can."""
    found = [f"{run.label} is {run.where_it_stands()}" for run in pairing.running]
    for arm in (pairing.baseline, pairing.arm):
        found += comparison.plan.waiting.get(arm.label, ())
    return found


def _common(pairing: Pairing) -> list[Difference]:
    """Every field that makes a pair unfair, with the values of the first such pair."""
    found: dict[str, Difference] = {}
    for _, differences in pairing.unfair:
        for difference in differences:
            found.setdefault(difference.key, difference)
    return list(found.values())


def _why_exploratory(comparison: Comparison, pairing: Pairing) -> list[str]:
    runs = [run for pair in pairing.pairs for run in (pair.theirs, pair.ours)]
    found = [*comparison.origins.beyond_plan(runs), *comparison.origins.left_out(runs, comparison.arms)]
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
    found: Sequence[PairedVerdict], tested: Sequence[int], num_counted_in: int, budget: Budget
) -> dict[int, bool | None]:  # fmt: skip
    """For every tested arm whether its sign is shown at an equal budget, too, corrected over these arms and those that
    count in."""
    known = {
        index: each.difference
        for index in tested
        for each in found[index].at_equal
        if each.budget == budget and each.difference
    }
    p_values = [*(difference.p for difference in known.values()), *[1.0] * num_counted_in]
    corrected = dict(zip(known, holm(p_values), strict=False))
    signs: dict[int, bool | None] = dict.fromkeys(tested)
    for index, difference in known.items():
        at_tokens = found[index].difference
        assert at_tokens is not None, "tested"
        signs[index] = corrected[index] < ALPHA and difference.mean * at_tokens.mean > 0
    return signs


def _kind(outcome: Outcome) -> str:
    """ "shown", "not shown" or "no verdict"."""
    return "shown" if outcome in SHOWN else "no verdict" if outcome in NO_VERDICT else "not shown"
