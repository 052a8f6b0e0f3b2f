"""Oracles of the tables that comparisons of groups have alone, from docs/compare.md: the verdict, and "Equal what?"."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.recomputed.arms import Arm, Compared
from tests.recomputed.harness import Oracle, Rows
from tests.recomputed.raw import Run
from tests.recomputed.statistics import Paired, deviation, holm, mean, paired, smallest_detectable, t_interval

LEVEL = 0.05
FEWEST = 3


def which_arms(compared: Compared) -> Rows:
    rows = []
    for arm in compared.arms:
        is_base = arm.label == compared.baseline
        seeds = sorted(run.seed for run in arm.runs)
        rows.append(
            {
                "arm": arm.title,
                "runs": len(arm.runs),
                "ended": len(arm.ended),
                "pairs": None if is_base else len(pairs(compared, arm)),
                "seeds": f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 2 else ", ".join(map(str, seeds)),
            }
        )
    return rows


def loss(compared: Compared) -> Rows:
    """Means over the runs that ended; where some did not, the mean of all at the most tokens that all reached, too."""
    tokens = compared.equal_tokens
    rows = []
    for arm in compared.arms:
        losses = [run.end_loss for run in arm.runs if run.end_loss is not None]
        low, high = t_interval(losses) if len(losses) > 1 else (None, None)
        row: dict[str, Any] = {
            "arm": arm.title,
            "runs": len(losses),
            "loss_nats": mean(losses) if losses else None,
            "low_nats": low,
            "high_nats": high,
            "standard_deviation_nats": deviation(losses) if len(losses) > 1 else None,
            "perplexity": arm.mean_at_end(lambda end: math.exp(end["loss"])),
            "bits_per_byte": arm.mean_at_end(lambda end: end["bits_per_byte"]),
        }
        if any(run.end is None for run in compared.runs) and tokens is not None:
            at_equal = [found["loss"] for run in arm.runs if (found := run.evaluation_at(tokens)) is not None]
            row["equal_tokens_loss_nats"] = mean(at_equal)
        rows.append(row)
    return rows


# ------------------------------------------------------------------ the verdict


def pairs(compared: Compared, arm: Arm) -> list[tuple[Run, Run]]:
    """Runs of one seed that both ended: one of the arm, one of the baseline's."""
    base = {run.seed: run for run in compared.base.ended}
    return [(run, base[run.seed]) for run in sorted(arm.ended, key=lambda run: run.seed) if run.seed in base]


def at_equal_tokens(compared: Compared, arm: Arm) -> Paired | None:
    both = pairs(compared, arm)
    return _paired([(ours.end_loss or math.nan, theirs.end_loss or math.nan) for ours, theirs in both])


def _paired(losses: list[tuple[float, float]]) -> Paired | None:
    return paired(*zip(*losses, strict=True)) if len(losses) > 1 else None


@dataclass(frozen=True)
class Verdict:
    """An arm's figures. p_holm, finds: of an arm that was tested. outcome: as the table has it."""

    difference: Paired | None
    pairs: int
    p_holm: float | None
    finds: float | None
    outcome: str

    @property
    def is_one(self) -> bool:
        return self.outcome in ("better", "worse", "equal", "not shown")


def verdicts(compared: Compared) -> dict[str, Verdict]:
    """Tested are arms with three pairs or more, where no run of theirs or of the baseline's goes on; p is corrected
    over all that are tested, and those that are waited for count in with p = 1. An arm of which a run diverged is not
    called better, nor is such a baseline."""
    found = {arm.label: at_equal_tokens(compared, arm) for arm in compared.others}
    tested = {
        label: difference.p
        for label, difference in found.items()
        if difference is not None and len(difference.differences) >= FEWEST and not goes_on(compared, label)
    }
    waiting = {arm.label: 1.0 for arm in compared.others if goes_on(compared, arm.label)}
    corrected = holm({**tested, **waiting})
    verdicts = {}
    for arm in compared.others:
        difference, count = found[arm.label], len(pairs(compared, arm))
        if arm.label not in tested or difference is None:
            outcome = "unfinished" if goes_on(compared, arm.label) else _too_few(compared, arm)
            verdicts[arm.label] = Verdict(difference, count, None, None, outcome)
            continue
        p = corrected[arm.label]
        outcome = "not shown"
        if p < LEVEL:
            favoured = arm if difference.mean < 0 else compared.base
            diverged = any(run.state["status"] == "diverged" for run in favoured.runs)
            outcome = "diverged" if diverged else "better" if difference.mean < 0 else "worse"
        finds = smallest_detectable(difference.deviation, count, LEVEL / len(corrected))
        verdicts[arm.label] = Verdict(difference, count, p, finds, outcome)
    return verdicts


def goes_on(compared: Compared, label: str) -> bool:
    return any(run.state["status"] == "running" for run in (*compared.arm(label).runs, *compared.base.runs))


def _too_few(compared: Compared, arm: Arm) -> str:
    """Why there are too few pairs: because runs were lost, or because there never were more."""
    lost = {run.state["status"] for run in (*arm.runs, *compared.base.runs) if run.end is None}
    return "too few" if not lost else "diverged" if lost == {"diverged"} else "unfinished"


def verdict(compared: Compared) -> Rows:
    found = verdicts(compared)
    counted = [label for label, each in found.items() if each.p_holm is not None or goes_on(compared, label)]
    several = len(counted) > 1 and any(each.p_holm is not None for each in found.values())
    rows = []
    for label, each in found.items():
        row = {"arm": label, "pairs": each.pairs, **_interval(each.difference)}
        row["p"] = each.difference.p if each.difference is not None and each.is_one else None
        row["smallest_detectable_nats"] = each.finds
        if several:
            row["p_holm"] = each.p_holm if each.is_one else None
        rows.append({**row, "outcome": each.outcome})
    return rows


def _interval(difference: Paired | None) -> dict[str, Any]:
    if difference is None:
        return dict.fromkeys(("delta_nats", "low_nats", "high_nats"))
    return {"delta_nats": difference.mean, "low_nats": difference.low, "high_nats": difference.high}


# ------------------------------------------------------------------ equal what


@dataclass(frozen=True)
class AtEqual:
    """cost: of a token of the arm over one of the baseline. tokens: where the arm that leads was read, if early."""

    cost: tuple[float, float] | None
    difference: Paired | None
    tokens: int | None


def at_equal(compared: Compared, arm: Arm, cost: tuple[float, float] | None) -> AtEqual:
    """The arm with the lower mean loss is read at its last evaluation within what the other one spent in all, by the
    upper end of what its cost may be; if it is the cheaper one, the difference at equal tokens stands."""
    difference = at_equal_tokens(compared, arm)
    both = pairs(compared, arm)
    if cost is None or difference is None:
        return AtEqual(cost, None, None)
    leads = difference.mean < 0
    dearest = cost[1] if leads else 1 / cost[0]
    end = both[0][0].manifest["tokens"]
    if dearest <= 1:
        return AtEqual(cost, difference, end)
    losses, reached = [], set()
    for ours, theirs in both:
        early = (ours if leads else theirs).evaluation_within(end / dearest)
        if early is None:
            return AtEqual(cost, None, None)
        reached.add(early["tokens"])
        losses.append((early["loss"], theirs.end_loss) if leads else (ours.end_loss, early["loss"]))
    return AtEqual(cost, _paired(losses), max(reached))


BUDGETS = {"FLOPs": Compared.flops_ratio, "seconds": Compared.seconds_ratio}


def equal_budgets(compared: Compared) -> Rows:
    rows = []
    for arm in compared.others:
        difference = at_equal_tokens(compared, arm)
        if difference is None:
            continue
        tokens = pairs(compared, arm)[0][0].manifest["tokens"]
        row = partial(dict, arm=arm.label)
        rows.append(row(equal="tokens", **_interval(difference), cost=None, read_at_tokens=tokens))
        for budget, cost_of in BUDGETS.items():
            found = at_equal(compared, arm, cost_of(compared, arm))
            rows.append(
                row(
                    equal=budget,
                    **_interval(found.difference),
                    cost=_times(found.cost),
                    read_at_tokens=found.tokens,
                )
            )
    return rows


def _times(cost: tuple[float, float] | None) -> str | None:
    """As the cell has it: three digits, and both ends where they differ."""
    if cost is None:
        return None
    low, high = (format(limit, ".3g") for limit in cost)
    return f"{low}×" if low == high else f"{low} to {high}×"


ORACLES: dict[str, Oracle] = {
    "runs": which_arms,
    "loss": loss,
    "verdict": verdict,
    "equal_budgets": equal_budgets,
}
BUILT_IN = {
    "runs": "report/compare.py",
    "loss": "report/tables/loss_by_arm.py",
    "verdict": "report/tables/verdict.py",
    "equal_budgets": "report/tables/equal_budgets.py",
}
