"""The list of runs: how each stands, its last validation loss, and its name."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from attnres_cli.errors import UserError
from attnres_cli.report.numbers import duration
from attnres_cli.report.table import Cell, Column, Row, Table
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.files import Row as JsonRow
from attnres_cli.runs.lookup import name_below
from attnres_cli.runs.metrics import number
from attnres_cli.runs.state import STATUSES, UNREADABLE

# The name is the last column: it alone may be wider than the terminal, and can still be selected as one word.
COLUMNS = (
    Column("status", "status"),
    Column("progress", "done", "%", "number", decimals=0, scale=100),
    Column("loss_nats", "loss", "nats", "number", decimals=4),
    Column("created", "age"),
    Column("name", "name"),
)


def build(runs: Sequence[RunDirectory], root: Path, *, now: float | None = None) -> Table:
    """One row per run, the newest last (next to the prompt). now: unix seconds, default the clock."""
    described = sorted((_described(run) for run in runs), key=lambda pair: (pair[0], pair[1].name))
    moment = time.time() if now is None else now
    return Table(
        "runs", "", COLUMNS, tuple(_row(run, root, created, moment) for created, run in described), folds=False
    )


def _described(run: RunDirectory) -> tuple[float, RunDirectory]:
    return created_seconds(run), run


def created_seconds(run: RunDirectory) -> float:
    """When the run was created, unix seconds: by its manifest, else by its folder."""
    created = manifest_or_nothing(run).get("created")
    try:
        return datetime.fromisoformat(str(created)).timestamp()
    except ValueError:
        return run.path.stat().st_mtime


def manifest_or_nothing(run: RunDirectory) -> JsonRow:
    try:
        return run.manifest()
    except UserError:
        return {}


def _row(run: RunDirectory, root: Path, created: float, now: float) -> Row:
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
            text=duration(max(0.0, now - created)),
        ),
        "name": name_below(run, root),
    }
