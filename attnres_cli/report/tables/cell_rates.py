"""The learning rates that trials chose, by cell and arm, and which of them are no optimum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from attnres_cli.report.cell_rates import CellRate, Verdict, cell_rates
from attnres_cli.report.sweep_results import SweepDocument
from attnres_cli.report.table import ABSENT, Cell, Column, Row, Table

WORDS: Mapping[Verdict, str] = {
    "tuned": "yes",
    "edge": "no: edge",
    "diverged": "no: diverged",
    "waiting": "not yet",
    "failed": "no: failed",
}


def rates_table(document: SweepDocument) -> Table | None:
    """A row per cell and arm; None where a rule gave the rates."""
    found = list(cell_rates(document).values())
    if not found:
        return None
    columns = (
        *((Column("cell", "cell"),) if any(each.cell for each in found) else ()),
        Column("arm", "arm"),
        Column("learning_rate", "rate", kind="number", digits=4),
        Column("rule", "the rule's", kind="number", digits=4),
        *(
            Column(f"trial_{number}", _factor(found, number), unit="nats", kind="number", decimals=4)
            for number in range(max(len(each.tried) for each in found))
        ),
        Column("tuned", "tuned"),
    )
    return Table("rates", "Learning rates", columns, tuple(map(_row, found)), remarks=_remarks(found))


def rates_sentence(document: SweepDocument) -> str | None:
    """How the rates will be chosen, before anything runs; None where a rule gives them."""
    found = list(cell_rates(document).values())
    if not found:
        return None
    trials = sum(len(each.tried) for each in found)
    return f"{trials} of the {len(document['runs'])} runs come first: {_how(found)}"


def _how(found: Sequence[CellRate]) -> str:
    most = max(found, key=lambda each: len(each.tried))
    factors = [f"{each.rate / most.of_the_rule.rate:.3g}" for each in most.tried]
    seeds = sorted({each.run["seed"] for rate in found for each in rate.tried})
    return (
        f"{len(most.tried)} learning rates for every cell and arm, × {', '.join(factors)} of the rule's, with seed "
        f"{', '.join(map(str, seeds))}, which no verdict uses; the other runs take the best of them."
    )


def _remarks(found: Sequence[CellRate]) -> tuple[str, ...]:
    """How the rates were chosen, and by name the cells where that is no optimum."""
    how = _how(found)
    lines = [f"{how[:1].upper()}{how[1:]}"]
    for side in ("lowest", "highest"):
        at_edge = [_name(each) for each in found if each.side == side]
        if at_edge:
            lines.append(
                f"Not tuned, best at the {side} rate tried: {', '.join(at_edge)}. A better one may lie beyond."
            )
    diverged = [_name(each) for each in found if each.verdict == "diverged"]
    if diverged:
        lines.append(f"Not tuned, every rate diverged: {', '.join(diverged)}. The rule's was taken.")
    if any(each.side for each in found):
        lines.append("More candidates: the same command and --name with a larger --tune-rates trains only what is new.")
    return tuple(lines)


def _row(found: CellRate) -> Row:
    chosen = found.chosen
    losses = {
        f"trial_{number}": Cell(text=ABSENT)
        if each.loss is None
        else Cell(each.loss)
        if math.isfinite(each.loss)
        else Cell(text="diverged", failed=True)
        for number, each in enumerate(found.tried)
    }
    return {
        "cell": found.cell,
        "arm": found.arm,
        "learning_rate": None if chosen is None else chosen.rate,
        "rule": found.of_the_rule.rate,
        **losses,
        "tuned": WORDS[found.verdict],
    }


def _factor(found: Sequence[CellRate], number: int) -> str:
    """The heading of a candidate: how many times the rule's rate it is."""
    rate = next(each for each in found if len(each.tried) > number)
    return f"× {rate.tried[number].rate / rate.of_the_rule.rate:.3g}"


def _name(found: CellRate) -> str:
    return " ".join(part for part in (found.cell, found.arm) if part)
