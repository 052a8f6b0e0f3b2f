"""The same pairs where neither arm may spend more than the other: at equal FLOPs, at equal seconds.

The arm with the lower mean loss may also be the dearer one. Then it is read again where it had spent as much as the
cheaper one did in all: at its last evaluation within that budget. Its learning rate had not decayed there, so this can
hide its advantage but not invent one. Where the leading arm is the cheaper one, the other would have to stop earlier
still, and the difference at equal tokens stands as the least it can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from attnres_cli.analysis.paired import PairedDifference, paired_difference
from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import usable_loss
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.pairing import Pair
from attnres_cli.runs.metrics import number

Budget = Literal["FLOPs", "seconds"]
BUDGETS: tuple[Budget, ...] = ("FLOPs", "seconds")


@dataclass(frozen=True)
class AtEqual:
    """The pairs of an arm at an equal budget.

    cost: what the arm takes per token over the baseline, low and high; None where it is not known, and then there is
    no difference either. early: label of the arm that was read before the end of its schedule, and tokens: where.
    difference: None, too, where that arm was not evaluated within the budget. bound: the difference is at most this
    ("upper": the arm leads) or at least this ("lower": the baseline does), for the reasons above.
    """

    budget: Budget
    cost: tuple[float, float] | None = None
    difference: PairedDifference | None = None
    early: str | None = None
    tokens: int | None = None
    bound: Literal["upper", "lower"] | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def at_equal(
    comparison: Comparison, arm: Arm, pairs: Sequence[Pair], difference: PairedDifference, budget: Budget
) -> AtEqual:
    """difference: of the same pairs at equal tokens."""
    cost = comparison.flops_ratio(arm) if budget == "FLOPs" else comparison.seconds_ratio(arm)
    if cost is None or difference.mean == 0:
        return AtEqual(budget, cost)
    leads = difference.mean < 0
    bound: Literal["upper", "lower"] = "upper" if leads else "lower"
    dearest = cost[1] if leads else 1 / cost[0]  # the most that the leading arm may take per token over the other one
    if dearest <= 1:
        return AtEqual(budget, cost, difference, bound=bound)
    leader = arm if leads else comparison.baseline
    ours: list[float] = []
    theirs: list[float] = []
    reached: set[int] = set()
    for pair in pairs:
        run = pair.ours if leads else pair.theirs
        row = run.evaluation_within((run.horizon_tokens or 0) / dearest)
        loss, tokens = usable_loss(row), number(row, "tokens")
        if loss is None or tokens is None:
            return AtEqual(budget, cost, early=leader.label)
        reached.add(int(tokens))
        ours.append(loss if leads else pair.losses[0])
        theirs.append(pair.losses[1] if leads else loss)
    return AtEqual(budget, cost, paired_difference(ours, theirs), leader.label, max(reached), bound)
