"""The runs of a sweep that have no result, and what could not be a run at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attnres_cli.report.sweep_results import SweepDocument
from attnres_cli.report.table import ABSENT, Cell, Column, Table

PLACE = (Column("cell", "cell"), Column("arm", "arm"), Column("seed", "seed"))


def unfinished_table(document: SweepDocument) -> Table | None:
    """Every run without a result, and why."""
    runs = [run for run in document["runs"] if run["status"] != "finished"]
    columns = (*PLACE, Column("status", "status"), Column("step", "step", kind="count"), Column("reason", "reason"))
    rows = tuple({**_place(run), "step": run["step"], "reason": run["error"] or ABSENT} for run in runs)
    return _with_cells_only_where_there_are_several(Table("unfinished", "Runs without a result", columns, rows))


def status_table(document: SweepDocument) -> Table | None:
    """Every run: how far it is, its loss, its folder."""
    columns = (
        *PLACE,
        Column("status", "status"),
        Column("step", "step", kind="count"),
        Column("steps", "of", kind="count"),
        Column("loss", "loss", kind="number", decimals=4),
        Column("folder", "folder"),
    )
    rows = tuple(
        {**_place(run), **{key: run[key] for key in ("step", "steps", "loss", "folder")}} for run in document["runs"]
    )
    return _with_cells_only_where_there_are_several(Table("runs", "Runs", columns, rows))


def impossible_table(document: SweepDocument) -> Table | None:
    """Every cell, or arm in a cell, that cannot be, with its reason."""
    found = document["impossible"]
    columns: tuple[Column, ...] = (
        *(Column("cell", "cell"), Column("arm", "arm")),
        Column("reason", "why there is no such run"),
    )
    rows = tuple({"cell": each["key"], "arm": each["arm"], "reason": each["reason"]} for each in found)
    for key in ("arm", "cell"):
        if all(not row[key] for row in rows):
            columns = tuple(column for column in columns if column.key != key)
    title = "Impossible cells" if all(each["arm"] is None for each in found) else "Impossible runs"
    return Table("impossible", title, columns, rows) if rows else None


def _place(run: Mapping[str, Any]) -> dict[str, Any]:
    seed = Cell(run["seed"], text=str(run["seed"]))
    arm = " ".join(filter(None, [run["arm"], run.get("trial")]))
    return {"cell": run["cell"], "arm": arm, "seed": seed, "status": run["status"]}


def _with_cells_only_where_there_are_several(table: Table) -> Table | None:
    if not table.rows:
        return None
    columns: Iterable[Column] = table.columns
    if not any(row["cell"] for row in table.rows):
        columns = (column for column in columns if column.key != "cell")
    return Table(table.key, table.title, tuple(columns), table.rows)
