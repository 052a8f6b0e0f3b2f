"""The list of runs: how each stands, its last validation loss, what it trains, and its name."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from attnres_cli.errors import UserError
from attnres_cli.report.numbers import short_duration
from attnres_cli.report.table import Cell, Column, Row, Table
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.files import Row as JsonRow
from attnres_cli.runs.lookup import SHORTENED, name_below
from attnres_cli.runs.metrics import number
from attnres_cli.runs.state import STATUSES, UNREADABLE

# The name is the last column: it alone may be wider than the terminal, and can still be selected as one word.
COLUMNS = (
    Column("status", "status"),
    Column("progress", "done", "%", "number", decimals=0, scale=100),
    Column("loss_nats", "loss", "nats", "number", decimals=4),
    Column("created", "age"),
    Column("scheme", "scheme"),
    Column("preset", "preset"),
    Column("seed", "seed", kind="count"),
    Column("name", "name"),
)
# What a terminal that is too narrow does without, the least useful first.
LEAST_USEFUL = ("created", "progress", "preset")
# The end of a name that the program chose: date, time, and four digits that tell it from the others.
CHOSEN_NAME = re.compile(r".+-(?P<date>\d{8})-(?P<time>\d{6})-(?P<digits>[0-9a-f]{4})")


def build(
    runs: Sequence[RunDirectory], root: Path, *, now: float | None = None, width_columns: int | None = None
) -> Table:
    """One row per run, the newest last (next to the prompt). now: unix seconds, default the clock.

    width_columns: of the terminal. Where the rows are wider, names that the program chose are shown by their last four
    digits (the rest of them stands in the other columns), then the least useful columns are left out.
    """
    described = sorted((_described(run) for run in runs), key=lambda each: (each[0], each[2].name))
    moment = time.time() if now is None else now
    table = Table("runs", "", COLUMNS, tuple(_row(*each, root, moment) for each in described), folds=False)
    return table if width_columns is None else _narrowed(table, width_columns)


def _narrowed(table: Table, width_columns: int) -> Table:
    if table.width_columns > width_columns:
        table = replace(table, rows=tuple(_with_short_names(table.rows)))
    for key in LEAST_USEFUL:
        if table.width_columns > width_columns:
            table = replace(table, columns=tuple(column for column in table.columns if column.key != key))
    return table


def _with_short_names(rows: Sequence[Row]) -> Iterator[Row]:
    """The rows with …ab12 for the names that the program chose; longer ends where several names end so."""
    names = [str(row["name"]) for row in rows]
    for row, name in zip(rows, names, strict=True):
        chosen = CHOSEN_NAME.fullmatch(name)
        ends = [name[chosen.start(part) :] for part in ("digits", "time", "date")] if chosen else []
        short = next((end for end in ends if sum(other.endswith(f"-{end}") for other in names) == 1), None)
        yield row if short is None else {**row, "name": Cell(name, text=f"{SHORTENED}{short}")}


def _described(run: RunDirectory) -> tuple[float, JsonRow, RunDirectory]:
    """(when it was created in unix seconds, by its manifest or else by its folder; its manifest; itself)"""
    manifest = manifest_or_nothing(run) or _planned(run)
    try:
        return datetime.fromisoformat(str(manifest.get("created"))).timestamp(), manifest, run
    except ValueError:
        return run.path.stat().st_mtime, manifest, run


def _planned(run: RunDirectory) -> JsonRow:
    """Of a run that has no manifest yet: what it is going to train."""
    with suppress(UserError):
        resolved, state = run.resolved(), run.read_state()
        scheme, seed = (
            resolved.get(section, {}).get(key) for section, key in (("residual", "scheme"), ("train", "seed"))
        )
        return {"scheme": scheme, "seed": seed, "preset_name": state.get("preset_name")}
    return {}


def manifest_or_nothing(run: RunDirectory) -> JsonRow:
    try:
        return run.manifest()
    except UserError:
        return {}


def _row(created: float, manifest: JsonRow, run: RunDirectory, root: Path, now: float) -> Row:
    state = run.read_state()
    status = str(state["status"])
    broken = status in ("diverged", "failed", UNREADABLE)
    loss = number(run.last_evaluation(), "loss")
    step, steps = number(state, "step"), number(state, "steps")
    progress = step / steps if step is not None and steps else None
    return {
        "status": status if status in STATUSES or status == "stale" else Cell(status, text="!"),
        "progress": Cell(progress, failed=progress is None and broken),
        "loss_nats": Cell(loss, failed=loss is None and broken),
        "created": Cell(
            datetime.fromtimestamp(created).astimezone().isoformat(timespec="seconds"),
            text=short_duration(max(0.0, now - created)),
        ),
        "scheme": _text(manifest.get("scheme")),
        "preset": _text(manifest.get("preset_name")),
        "seed": number(manifest, "seed"),
        "name": name_below(run, root),
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
