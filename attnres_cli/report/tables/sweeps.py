"""The list of sweeps: `attnres sweep ls`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnres_cli.report.document import Document
from attnres_cli.report.table import Cell, Column, Table

COLUMNS = (
    Column("name", "sweep"),
    Column("kind", "kind"),
    Column("status", "status"),
    Column("finished", "finished", kind="count"),
    Column("runs", "runs", kind="count"),
    Column("failed", "failed", kind="count"),
    Column("preset", "preset"),
    Column("arms", "arms", kind="count"),
    Column("seeds", "seeds", kind="count"),
    Column("created", "created"),
)


def sweeps_document(sweeps: Sequence[Mapping[str, Any]]) -> Document:
    """sweeps: a mapping each with name, status and, if the file is readable, kind, preset, arms, seeds, runs, counted,
    created."""
    return Document("sweeps", (sweeps_table(sweeps),) if sweeps else (), {"sweeps": [dict(sweep) for sweep in sweeps]})


def sweeps_table(sweeps: Sequence[Mapping[str, Any]]) -> Table:
    """One row per sweep; the reason why a file cannot be read is a note."""
    return Table("sweeps", "Sweeps", COLUMNS, tuple(_row(sweep) for sweep in sweeps))


def _row(sweep: Mapping[str, Any]) -> dict[str, Any]:
    counted = sweep.get("counted", {})
    readable = "counted" in sweep
    return {
        "name": sweep["name"],
        "kind": sweep.get("kind"),
        "status": Cell(sweep["status"], note=sweep.get("error")),
        "finished": counted.get("finished", 0) if readable else None,
        "runs": sweep.get("runs"),
        "failed": counted.get("failed", 0) + counted.get("diverged", 0) if readable else None,
        "preset": sweep.get("preset"),
        "arms": len(sweep["arms"]) if readable else None,
        "seeds": sweep.get("seeds"),
        "created": sweep.get("created"),
    }
