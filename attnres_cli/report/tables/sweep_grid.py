"""The grids of a depth-width sweep: loss per scheme on one heat scale, and the difference to the first scheme."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attnres_cli.report.numbers import short_count
from attnres_cli.report.sweep import QUANTITIES, Grid, Place
from attnres_cli.report.table import ABSENT, Cell, Column, Table

LOWEST_MARK = "★"


def loss_grids(grid: Grid) -> list[Table]:
    """One grid per scheme, all on one heat scale."""
    losses = [loss for place in grid.places() for label in grid.labels if (loss := grid.loss(place, label)) is not None]
    scale = _HeatScale(losses)
    return [
        Table(
            key=f"loss_{label}",
            title=f"Validation loss, {label}",
            columns=_columns(grid),
            rows=tuple(_loss_row(grid, row, label, scale) for row in grid.rows),
            caption=_caption(grid) if label == grid.labels[0] else "",
        )
        for label in grid.labels
    ]


def difference_grids(grid: Grid) -> list[Table]:
    """For every scheme but the first: its loss minus the first scheme's."""
    return [
        Table(
            key=f"difference_{label}",
            title=f"Δ loss, {label} − {grid.labels[0]} (below zero: {label} is lower)",
            columns=_columns(grid, signed=True),
            rows=tuple(_difference_row(grid, row, label) for row in grid.rows),
        )
        for label in grid.labels[1:]
    ]


def _columns(grid: Grid, *, signed: bool = False) -> tuple[Column, ...]:
    first = (
        Column("head_ratio", "H/L_b ↓  d/L_b →", kind="number")
        if grid.has_head_axis
        else Column("row", "d_model/L_b", unit="L_b×d_model")
    )
    return (first, *(_column(grid, ratio, signed) for ratio in grid.columns))


def _column(grid: Grid, ratio: float, signed: bool) -> Column:
    cell = grid.cells.get((None, ratio))
    # One row: all its cells share the column's heading, so the shape can stand there.
    shape = "" if cell is None else f"{cell['shape']['transformer_blocks']}×{cell['shape']['d_model']}"
    return Column(f"ratio_{ratio:g}", f"{ratio:g}", unit=shape, kind="number", decimals=4, signed=signed)


def _first_cell(row: float | None) -> dict[str, Cell]:
    return {"row": Cell("loss")} if row is None else {"head_ratio": Cell(row, text=f"{row:g}")}


def _loss_row(grid: Grid, row: float | None, label: str, scale: _HeatScale) -> dict[str, Cell]:
    lowest = grid.lowest(label)
    cells = _first_cell(row)
    for ratio in grid.columns:
        loss = grid.loss((row, ratio), label)
        mark = f"{LOWEST_MARK} " if (row, ratio) == lowest else ""
        if loss is None:
            cells[f"ratio_{ratio:g}"] = _without_loss(grid.run((row, ratio), label))
        else:
            cells[f"ratio_{ratio:g}"] = Cell(loss, text=f"{mark}{loss:.4f}", heat=scale(loss))
    return cells


def _difference_row(grid: Grid, row: float | None, label: str) -> dict[str, Cell]:
    differences = {place: _difference(grid, place, label) for place in grid.places()}
    scale = _HeatScale(value for value in differences.values() if value is not None)
    cells = _first_cell(row)
    for ratio in grid.columns:
        value = differences[(row, ratio)]
        failed = any(
            (run := grid.run((row, ratio), each)) is not None and _is_failure(run) for each in (label, grid.labels[0])
        )
        heat = None if value is None else scale(value)
        cells[f"ratio_{ratio:g}"] = Cell(value, heat=heat, failed=failed and value is None)
    return cells


def _difference(grid: Grid, place: Place, label: str) -> float | None:
    ours, first = grid.loss(place, label), grid.loss(place, grid.labels[0])
    return None if ours is None or first is None else ours - first


def _without_loss(run: Mapping[str, Any] | None) -> Cell:
    if run is None:
        return Cell(text=ABSENT)
    if _is_failure(run):
        return Cell(failed=True)
    return Cell(text=ABSENT if run["status"] == "planned" else run["status"])


def _is_failure(run: Mapping[str, Any]) -> bool:
    return run["status"] in ("failed", "diverged")


class _HeatScale:
    """Maps the smallest value to 0 and the largest to 1."""

    def __init__(self, values: Iterable[float]) -> None:
        found = list(values)
        self.low, self.high = (min(found), max(found)) if found else (0.0, 0.0)

    def __call__(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5


def _caption(grid: Grid) -> str:
    document = grid.document
    quantity, words = QUANTITIES[document["request"]["match"]]
    pinned = document["reference"]["counts"][quantity]
    return (
        f"nats per token after {short_count(document['tokens'])} training tokens, the same for all cells; "
        f"{words} matched to {short_count(pinned)}; {LOWEST_MARK} lowest cell"
    )
