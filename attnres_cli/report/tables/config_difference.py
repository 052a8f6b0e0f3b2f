"""What differs between the runs, and nothing else; what forbids a verdict comes first after the scheme itself."""

from __future__ import annotations

from attnres_cli.report.comparison import Comparison
from attnres_cli.report.table import Cell, Column, Row, Table
from attnres_cli.report.values import spelt_out
from attnres_cli.runs.fairness import Difference, Rule

COMPARISON_ORDER = 10

# Rule → (what the table calls it, its place in the table)
MEANINGS = {
    Rule.SUBJECT: ("compared", 0),
    Rule.SHAPE: ("UNFAIR: shape", 1),
    Rule.EQUAL: ("UNFAIR", 1),
    Rule.TUNED: ("if tuned", 2),
    Rule.TIMING: ("timing only", 3),
    Rule.RECORD: ("record only", 4),
}


def build(comparison: Comparison) -> Table:
    """One row per key, one column per run. Runs that say nothing about themselves have a "!" in every row."""
    known = comparison.differences if len(comparison.readable) > 1 else []
    found = sorted(known, key=lambda difference: MEANINGS[difference.rule][1])
    columns = (
        Column("key", "key"),
        Column("meaning", "means"),
        *(Column(arm.label, arm.label) for arm in comparison.arms),
    )
    return Table(
        key="configuration",
        title="Configuration: only what differs",
        columns=columns,
        rows=tuple(_row(comparison, difference) for difference in found),
        caption=_caption(comparison, len(found)),
    )


def _caption(comparison: Comparison, count: int) -> str:
    speaking = {arm.label for arm in comparison.readable}
    silent = [arm.label for arm in comparison.arms if arm.label not in speaking]
    unknown = f"; {', '.join(silent)}: not known" if silent else ""
    if len(speaking) < 2:
        return f"nothing to compare{unknown}"
    if count == 0:
        return f"nothing: these runs are repetitions{unknown}"
    differ = "key differs" if count == 1 else "keys differ"
    return f"{count} {differ}; everything else that was recorded is equal{unknown}"


def _row(comparison: Comparison, difference: Difference) -> Row:
    values = dict(zip((arm.label for arm in comparison.readable), difference.values, strict=True))
    cells: dict[str, Cell] = {}
    for arm in comparison.arms:
        if arm.label in values:
            value = values[arm.label]
            cells[arm.label] = Cell(_plain(value), text=spelt_out(value))
        else:
            cells[arm.label] = Cell(failed=True)
    return {"key": difference.label, "meaning": MEANINGS[difference.rule][0], **cells}


def _plain(value: object) -> str | float | int | bool | None:
    return value if value is None or isinstance(value, (str, int, float, bool)) else spelt_out(value)
