"""What a user asks a comparison to hold: conditions that must not hold (--fail-on), and equivalence within a margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attnres_cli.analysis.conditions import WHERE, Condition
from attnres_cli.analysis.equivalence import equivalence_p
from attnres_cli.analysis.paired import FEWEST_PAIRS, mean_interval
from attnres_cli.errors import Fault, UserError
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.document import Notice
from attnres_cli.report.figures import lookup
from attnres_cli.report.paired_verdicts import ALPHA, PairedVerdict, paired_verdicts
from attnres_cli.report.phrases import counted, interval, listed, nats, probability


@dataclass(frozen=True)
class Judged:
    """A condition. holds: None where one of its figures is not known."""

    text: str
    holds: bool | None
    said: str


@dataclass(frozen=True)
class Equivalence:
    """Whether an arm is shown to lie within `margin_nats` of the baseline. p: of the two one-sided tests; low, high:
    the 90 % interval, which lies within the margin exactly where p < 0.05. None where there are too few pairs."""

    arm: str
    margin_nats: float
    is_shown: bool
    said: str
    p: float | None = None
    low_nats: float | None = None
    high_nats: float | None = None


@dataclass(frozen=True)
class Demands:
    conditions: tuple[Judged, ...] = ()
    equivalence: tuple[Equivalence, ...] = ()

    @classmethod
    def judge(cls, comparison: Comparison, conditions: Sequence[Condition], margin: float | None) -> Demands:
        """conditions: with names that were checked. margin: nats; None where equivalence was not asked for."""
        value_of = lookup(comparison)

        def judged(condition: Condition) -> Judged:
            try:
                outcome = condition.judge(value_of)
            except UserError as error:
                return Judged(condition.text, None, f"{condition.text}: {error.faults[0].what}")
            return Judged(condition.text, outcome.holds, str(outcome))

        equal = () if margin is None else tuple(_equivalences(comparison, margin))
        return cls(tuple(judged(each) for each in conditions), equal)

    @property
    def unknown(self) -> list[Fault]:
        """Conditions over figures that are not known."""
        return [Fault(each.said, where=WHERE) for each in self.conditions if each.holds is None]

    @property
    def unmet(self) -> list[str]:
        """What is said of every demand that is not met."""
        return [
            *(each.said for each in self.conditions if each.holds),
            *(each.said for each in self.equivalence if not each.is_shown),
        ]

    @property
    def are_met(self) -> bool:
        return not self.unmet

    def notice(self) -> Notice | None:
        """Every condition with its numbers, every equivalence with its interval; None where nothing was asked."""
        titles = []
        if self.conditions:
            held = sum(each.holds is True for each in self.conditions)
            titles.append(f"--fail-on: {held} of {len(self.conditions)} conditions hold")
        if self.equivalence:
            shown = sum(each.is_shown for each in self.equivalence)
            titles.append(f"--equivalent-within: shown for {shown} of {len(self.equivalence)} arms")
        if not titles:
            return None
        said = (*(each.said for each in self.conditions), *(each.said for each in self.equivalence))
        fine = self.are_met and not self.unknown
        return Notice("; ".join(titles), said, "result" if fine else "warning")

    def to_dict(self) -> dict[str, Any]:
        return {
            "conditions": [asdict(each) for each in self.conditions],
            "equivalence": [asdict(each) for each in self.equivalence],
        }


def _equivalences(comparison: Comparison, margin: float) -> list[Equivalence]:
    """One for each arm but the baseline. That all of them hold is one claim, which needs no correction."""
    if comparison.by_seed:
        return [_equivalence(comparison, verdict, margin) for verdict in paired_verdicts(comparison)]
    why = f"one run shows no spread; {FEWEST_PAIRS} pairs of seeds at least"
    return [Equivalence(arm.label, margin, False, f"{arm.label}: not shown: {why}") for arm in comparison.others]


def _equivalence(comparison: Comparison, verdict: PairedVerdict, margin: float) -> Equivalence:
    difference = verdict.difference
    within = f"within {nats(margin)} nats of {verdict.baseline}"
    if difference is None or (not verdict.has_verdict and verdict.outcome != "diverged"):
        said = f"{verdict.arm}: equivalence is not shown ({verdict.outcome}): {'; '.join(verdict.reasons)}"
        return Equivalence(verdict.arm, margin, False, said)
    p = equivalence_p(difference, margin)
    _, low, high = mean_interval(difference.differences, confidence=1 - 2 * ALPHA)
    pairing = comparison.pairings[verdict.arm]
    diverged = [run.label for arm in (pairing.baseline, pairing.arm) for run in pairing.diverged(arm)]
    is_shown = p < ALPHA and not diverged
    figures = f"90 % interval {interval(low, high)}, {counted(difference.n, 'pair')}, p {probability(p)}"
    words = f"equivalent {within}" if is_shown else f"not shown to be {within}"
    why = f"; {listed(diverged)} diverged, which the other runs do not make up for" if diverged else ""
    return Equivalence(verdict.arm, margin, is_shown, f"{verdict.arm}: {words} ({figures}){why}", p, low, high)
