"""Tables with runs beside one another: one row per run, or one row per depth and a column per run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attnres_cli.report.probed_run import ProbedRun
from attnres_cli.report.table import Cell, Column, Row, Table, Value

# Wider than a terminal with this many characters of scheme names, the letters stand alone.
ROOM_FOR_SCHEMES = 64
RUN_COLUMNS = (Column("run", "run"), Column("scheme", "scheme"))


def by_run(
    key: str,
    title: str,
    runs: Sequence[ProbedRun],
    columns: Sequence[Column],
    row: Callable[[ProbedRun], Row],
    *,
    caption: str = "",
    remarks: Sequence[str] = (),
) -> Table:
    """One row per run."""
    rows = tuple({"run": run.label, "scheme": run.scheme, **row(run)} for run in runs)
    return Table(key, title, (*RUN_COLUMNS, *columns), rows, caption, tuple(remarks))


def by_depth(
    key: str,
    title: str,
    runs: Sequence[ProbedRun],
    place: Column,
    values: Callable[[ProbedRun], Sequence[Value | Cell]],
    *,
    caption: str = "",
    remarks: Sequence[str] = (),
    first: int = 0,
    names: Sequence[str] | None = None,
    decimals: int | None = None,
) -> Table:
    """One row per place in depth, numbered from `first` (or named), and one column per run, whose key is its letter:
    a run may have any name, that of another column, too."""
    found = {run.label: values(run) for run in runs}
    longest = max(map(len, found.values()), default=0)
    spacious = sum(len(run.scheme) + 2 for run in runs) <= ROOM_FOR_SCHEMES
    columns = tuple(
        Column(run.label, run.label, run.scheme if spacious else "", "number", decimals=decimals) for run in runs
    )
    rows = tuple(
        {
            place.key: names[index] if names is not None else first + index,
            **{label: series[index] for label, series in found.items() if index < len(series)},
        }
        for index in range(longest)
    )
    return Table(key, title, (place, *columns), rows, caption, tuple(remarks))


BLOCKS_PASSED = Column("blocks_passed", "blocks", "passed", "count")
BLOCK = Column("block", "block", kind="count")


def estimate(delta: float | None, low: float | None, high: float | None, decimals: int = 4) -> Cell:
    """A difference with its interval; "~" before one that is not shown to differ from zero."""
    if delta is None:
        return Cell(None)
    if low is None or high is None:
        return Cell(delta)
    unsure = "~ " if low <= 0 <= high else ""
    return Cell(delta, text=f"{unsure}{delta:+.{decimals}f} [{low:+.{decimals}f}, {high:+.{decimals}f}]")
