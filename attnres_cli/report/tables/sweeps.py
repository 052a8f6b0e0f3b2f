"""The list of sweeps: `attnres sweep ls`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from attnres_cli.report.document import Document
from attnres_cli.report.numbers import short_duration
from attnres_cli.report.table import Cell, Column, Row, Table

# The name is the last column: it alone may be wider than the terminal, and can still be selected as one word.
COLUMNS = (
    Column("status", "status"),
    Column("finished", "done", kind="count"),
    Column("runs", "runs", kind="count"),
    Column("failed", "failed", kind="count"),
    Column("kind", "kind"),
    Column("arms", "arms", kind="count"),
    Column("seeds", "seeds", kind="count"),
    Column("preset", "preset"),
    Column("created", "age"),
    Column("name", "sweep"),
)
# What a terminal that is too narrow does without, the least useful first.
LEAST_USEFUL = ("created", "seeds", "arms", "preset", "kind")


def sweeps_document(
    sweeps: Sequence[Mapping[str, Any]], *, now: float | None = None, width_columns: int | None = None
) -> Document:
    """sweeps: a mapping each with name, status and, if the file is readable, kind, preset, arms, seeds, runs, counted,
    created. now: unix seconds, default the clock. width_columns: of the terminal."""
    table = sweeps_table(sweeps, now=time.time() if now is None else now, width_columns=width_columns)
    return Document("sweeps", (table,) if sweeps else (), {"sweeps": [dict(sweep) for sweep in sweeps]})


def sweeps_table(sweeps: Sequence[Mapping[str, Any]], *, now: float, width_columns: int | None = None) -> Table:
    """One row per sweep; the reason why a file cannot be read is a note. Where the rows are wider than the terminal,
    the least useful columns are left out."""
    table = Table("sweeps", "Sweeps", COLUMNS, tuple(_row(sweep, now) for sweep in sweeps), folds=False)
    for key in LEAST_USEFUL:
        if width_columns is not None and table.width_columns > width_columns:
            table = replace(table, columns=tuple(column for column in table.columns if column.key != key))
    return table


def _row(sweep: Mapping[str, Any], now: float) -> Row:
    counted = sweep.get("counted", {})
    readable = "counted" in sweep
    return {
        "status": Cell(sweep["status"], note=sweep.get("error")),
        "finished": counted.get("finished", 0) if readable else None,
        "runs": sweep.get("runs"),
        "failed": counted.get("failed", 0) + counted.get("diverged", 0) if readable else None,
        "kind": sweep.get("kind"),
        "arms": len(sweep["arms"]) if readable else None,
        "seeds": sweep.get("seeds"),
        "preset": sweep.get("preset"),
        "created": _age(sweep.get("created"), now),
        "name": sweep["name"],
    }


def _age(created: str | None, now: float) -> Cell:
    """The moment, shown as the time since."""
    try:
        return Cell(created, text=short_duration(max(0.0, now - datetime.fromisoformat(str(created)).timestamp())))
    except ValueError:
        return Cell(None)
