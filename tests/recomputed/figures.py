"""Oracles of what `attnres compare --json` gives beside its tables: the figures of every arm, verdicts, and curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tests.recomputed.arms import Arm, Compared
from tests.recomputed.compared_groups import BUDGETS, LEVEL, at_equal, goes_on, pairs, verdicts
from tests.recomputed.configuration import RULES, facts_of
from tests.recomputed.harness import Rows
from tests.recomputed.statistics import holm, mean

# A curve of fewer evaluations than this is drawn from the training losses (docs/compare.md, "The tables").
FEWEST_EVALUATIONS = 4


def arms(compared: Compared) -> Rows:
    """The figures of every arm by the names that conditions know (docs/compare.md, "Conditions, for CI")."""
    paired = any(len(arm.runs) > 1 for arm in compared.arms)
    base = compared.timings.get(compared.baseline)
    rows = []
    for arm in compared.arms:
        is_base = arm.label == compared.baseline
        timing = compared.timings.get(arm.label)
        row: dict[str, Any] = {
            "label": arm.label,
            "loss": arm.mean_at_end(lambda end: end["loss"]),
            "perplexity": arm.mean_at_end(lambda end: math.exp(end["loss"])),
            "bits_per_byte": arm.mean_at_end(lambda end: end["bits_per_byte"]),
            "runs": len(arm.ended),
            "flops_ratio": compared.flops_ratio(arm)[0],
        }
        if timing is not None and base is not None:
            tokens = arm.counted[0].resolved["train"]["tokens_per_step"]
            row |= {
                "step_ratio": 1.0 if is_base else timing.ratio[0],
                "step_seconds": timing.seconds,
                "tokens_per_second": tokens / timing.seconds,
                "peak_bytes": timing.peak_bytes,
                "peak_ratio": timing.peak_bytes / base.peak_bytes,
            }
        if not is_base:
            row |= _paired_figures(compared, arm) if paired else _single_figures(compared, arm)
        rows.append(row)
    return [{**dict.fromkeys(set().union(*rows)), **row} for row in rows]


def _single_figures(compared: Compared, arm: Arm) -> dict[str, Any]:
    delta = single_delta(compared, arm)
    return {"n": 0 if delta is None else 1, "delta": delta}


def single_delta(compared: Compared, arm: Arm) -> float | None:
    """Where both ended and differ in nothing that must be equal."""
    ours, theirs = arm.runs[0], compared.base.runs[0]
    unfair = any(facts_of(ours).get(key) != facts_of(theirs).get(key) for key in RULES["UNFAIR"])
    if unfair or ours.end_loss is None or theirs.end_loss is None:
        return None
    return ours.end_loss - theirs.end_loss


def _paired_figures(compared: Compared, arm: Arm) -> dict[str, Any]:
    found = verdicts(compared)[arm.label]
    row: dict[str, Any] = {"n": found.pairs, "smallest_detectable": found.finds}
    if found.difference is not None:
        row |= {"delta": found.difference.mean, "standard_deviation": found.difference.deviation}
        for budget, cost_of in BUDGETS.items():
            difference = at_equal(compared, arm, cost_of(compared, arm)).difference
            row[f"delta_{budget.lower()}"] = None if difference is None else difference.mean
    if found.difference is not None and found.is_one:
        row |= {key: getattr(found.difference, key) for key in ("low", "high", "p")}
        row["p_holm"] = found.p_holm
    return row


# ------------------------------------------------------------------ verdicts


def single_verdicts(compared: Compared) -> Rows:
    """The difference at the end, and whether the better run is still ahead where it may spend no more than the other
    one spent: read at its last evaluation within that."""
    rows = []
    for arm in compared.others:
        delta = single_delta(compared, arm)
        row: dict[str, Any] = {"label": arm.label, "delta_nats": delta}
        if delta is not None:
            better, worse = (arm, compared.base) if delta < 0 else (compared.base, arm)
            row["tokens"] = tokens = better.runs[0].manifest["tokens"]
            for budget, cost_of in BUDGETS.items():
                cost = cost_of(compared, arm)
                if cost is None:
                    row[budget] = None
                    continue
                dearest = cost[1] if delta < 0 else 1 / cost[0]
                early = better.runs[0].end if dearest <= 1 else better.runs[0].evaluation_within(tokens / dearest)
                row[budget] = None if early is None else early["loss"] < (worse.runs[0].end_loss or math.nan)
        rows.append(row)
    return [{**dict.fromkeys(set().union(*rows)), **row} for row in rows]


def paired_verdicts(compared: Compared) -> Rows:
    """Every number of a verdict, the differences of the pairs among them."""
    found = verdicts(compared)
    survive = {budget: _survive(compared, budget) for budget in BUDGETS}
    correcting = sum(other.p_holm is not None or goes_on(compared, label) for label, other in found.items())
    rows = []
    for arm in compared.others:
        each = found[arm.label]
        both = pairs(compared, arm)
        row: dict[str, Any] = {
            "arm": arm.label,
            "tokens": both[0][0].manifest["tokens"] if both else None,
            "p_holm": each.p_holm,
            "tested": 0 if each.p_holm is None else correcting,
            "smallest_detectable": each.finds,
            **{f"seeds.{place}": ours.seed for place, (ours, _) in enumerate(both)},
        }
        if each.difference is not None:
            row |= _flat("difference", each.difference)
            for budget, cost_of in BUDGETS.items():
                at = at_equal(compared, arm, cost_of(compared, arm))
                low, high = at.cost or (None, None)
                row |= {f"{budget}.cost.0": low, f"{budget}.cost.1": high}
                row |= {} if at.difference is None else _flat(f"{budget}.difference", at.difference)
                dearer = at.difference is not None and at.difference.differences != each.difference.differences
                row[f"{budget}.tokens"] = at.tokens if dearer else None
        if each.outcome in ("better", "worse"):
            row |= {f"survives.{budget}": survive[budget].get(arm.label) for budget in BUDGETS}
        rows.append(row)
    return rows


def _flat(name: str, difference: Any) -> dict[str, Any]:
    values = {f"{name}.differences.{place}": value for place, value in enumerate(difference.differences)}
    figures = {f"{name}.{key}": getattr(difference, key) for key in ("mean", "low", "high", "p")}
    return {**values, **figures, f"{name}.standard_deviation": difference.deviation, f"{name}.confidence": 0.95}


def _survive(compared: Compared, budget: str) -> Mapping[str, bool]:
    """Of the arms that are tested, whether the sign is shown at an equal budget: p after Holm over these arms."""
    differences = {}
    for label, each in verdicts(compared).items():
        arm = compared.arm(label)
        difference = at_equal(compared, arm, BUDGETS[budget](compared, arm)).difference
        if each.p_holm is not None and each.difference is not None and difference is not None:
            differences[label] = difference, each.difference
    waiting = {arm.label: 1.0 for arm in compared.others if goes_on(compared, arm.label)}
    corrected = holm({**{label: difference.p for label, (difference, _) in differences.items()}, **waiting})
    return {
        label: corrected[label] < LEVEL and difference.mean * at_tokens.mean > 0
        for label, (difference, at_tokens) in differences.items()
    }


# ------------------------------------------------------------------ curves


def curves(compared: Compared) -> dict[str, dict[str, list[float]]]:
    """Tokens and loss of every arm, the mean over its runs wherever all of them have one; validation losses where the
    runs were evaluated often enough."""
    finished = [run for run in compared.runs if run.state["status"] == "finished"]
    often = all(len(run.evaluated) >= FEWEST_EVALUATIONS for run in finished)
    found = {}
    for arm in compared.arms:
        each = [
            {row["tokens"]: row["loss"] for row in (run.evaluated if often else run.train_rows)} for run in arm.counted
        ]
        common = sorted(set.intersection(*(set(points) for points in each)))
        found[arm.label] = {
            "tokens": common,
            "loss_nats": [mean([points[tokens] for points in each]) for tokens in common],
        }
    return found
