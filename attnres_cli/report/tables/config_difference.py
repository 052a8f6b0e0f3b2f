"""What differs between the runs, and nothing else; what forbids a verdict comes first after the scheme itself."""

from __future__ import annotations

from attnres_cli.preset.keys import scheme_defaults
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.grouping import SEEDED
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
    """One row per key, one column per arm. Runs that say nothing about themselves have a "!" in every row."""
    known = comparison.differences if len(comparison.readable) > 1 else []
    if comparison.by_seed:
        known = [difference for difference in known if not _is_paired(comparison, difference)]
    shown = [difference for difference in known if not _is_a_default_of_one_scheme(comparison, difference)]
    found = sorted(shown, key=lambda difference: MEANINGS[difference.rule][1])
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
        remarks=_left_out([difference for difference in known if difference not in shown]),
    )


def _is_a_default_of_one_scheme(comparison: Comparison, difference: Difference) -> bool:
    """Whether the key belongs to some of the schemes alone, and every run that has it leaves it at its default: that
    the schemes differ says it all."""
    section, _, key = difference.key.partition(".")
    if section != "residual" or None not in difference.values:
        return False
    pairs = zip(comparison.readable, difference.values, strict=True)
    defaults = [(scheme_defaults(run.scheme or ""), value) for run, value in pairs if value is not None]
    return all(key in known and known[key] == value for known, value in defaults)


def _left_out(left_out: list[Difference]) -> tuple[str, ...]:
    if not left_out:
        return ()
    are = (
        "keys that only some schemes have are at their defaults"
        if len(left_out) > 1
        else ("key that only some schemes have is at its default")
    )
    return (f"{len(left_out)} {are} (--json names them)",)


def _is_paired(comparison: Comparison, difference: Difference) -> bool:
    """Whether a key differs because the seeds do, which is what pairs are made by."""
    return difference.key in SEEDED and not any(
        difference.key == each.key
        for pairing in comparison.pairings.values()
        for _, differences in pairing.unfair
        for each in differences
    )


def _caption(comparison: Comparison, count: int) -> str:
    speaking = {run.label for run in comparison.readable}
    silent = [run.label for run in comparison.runs if run.label not in speaking]
    unknown = f"; {', '.join(silent)}: not known" if silent else ""
    if len(speaking) < 2:
        return f"nothing to compare{unknown}"
    if count == 0:
        what = "these arms are the same" if comparison.by_seed else "these runs are repetitions"
        return f"nothing: {what}{unknown}"
    differ = "key differs" if count == 1 else "keys differ"
    paired = ", and runs are paired by seed" if comparison.by_seed else ""
    return f"{count} {differ}; everything else that was recorded is equal{paired}{unknown}"


def _row(comparison: Comparison, difference: Difference) -> Row:
    by_run = dict(zip((run.label for run in comparison.readable), difference.values, strict=True))
    cells: dict[str, Cell] = {}
    for arm in comparison.arms:
        values = [by_run[run.label] for run in arm.runs if run.label in by_run]
        different = list({spelt_out(value): value for value in values}.values())
        if not different:
            cells[arm.label] = Cell(failed=True)
        elif len(different) == 1:
            cells[arm.label] = Cell(_plain(different[0]), text=spelt_out(different[0]))
        else:
            cells[arm.label] = Cell(", ".join(map(spelt_out, different)))
    return {"key": difference.label, "meaning": MEANINGS[difference.rule][0], **cells}


def _plain(value: object) -> str | float | int | bool | None:
    return value if value is None or isinstance(value, (str, int, float, bool)) else spelt_out(value)
