"""The grids of a depth-width sweep: loss per scheme on one heat scale, and the difference to the first scheme."""

from __future__ import annotations

import math
from collections.abc import Iterable

from attnres_cli.analysis.paired import FEWEST_PAIRS
from attnres_cli.report.numbers import short_count
from attnres_cli.report.sweep_grid import QUANTITIES, Grid
from attnres_cli.report.sweep_results import FAILURES
from attnres_cli.report.table import ABSENT, Cell, Column, Table

# The lowest cell where seeds show it against its neighbours, and where they do not.
SHOWN_MARK = "★"
LOWEST_MARK = "↓"


def loss_grids(grid: Grid) -> list[Table]:
    """One grid per scheme, all on one heat scale."""
    losses = [loss for place in grid.places() for label in grid.labels if (loss := grid.loss(place, label)) is not None]
    scale = _HeatScale(losses)
    return [
        Table(
            key=f"loss_{label}",
            title=f"Validation loss, {label}",
            columns=_columns(grid),
            rows=tuple(each for row in grid.rows for each in _loss_rows(grid, row, label, scale)),
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
            rows=tuple(each for row in grid.rows for each in _difference_rows(grid, row, label)),
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
    shape = cell["facts"]["shape"] if cell is not None else None
    unit = "" if shape is None else f"{shape['transformer_blocks']}×{shape['d_model']}"
    return Column(f"ratio_{ratio:g}", f"{ratio:g}", unit=unit, kind="number", decimals=4, signed=signed)


def _first_cell(row: float | None, word: str) -> dict[str, Cell]:
    return {"row": Cell(word)} if row is None else {"head_ratio": Cell(row, text=f"{row:g}")}


def _interval_cells(row: float | None) -> dict[str, Cell]:
    return {"row": Cell("± 95 %")} if row is None else {"head_ratio": Cell(text="± 95 %")}


def _loss_rows(grid: Grid, row: float | None, label: str, scale: _HeatScale) -> list[dict[str, Cell]]:
    """The means, and with more than one seed a row with their intervals."""
    lowest = grid.lowest(label)
    mark = SHOWN_MARK if grid.is_shown(label) else LOWEST_MARK
    means, halves = _first_cell(row, "loss"), _interval_cells(row)
    for ratio in grid.columns:
        place, key = (row, ratio), f"ratio_{ratio:g}"
        mean = grid.mean(place, label)
        if mean is None:
            means[key] = _without_loss(grid.status(place, label))
            halves[key] = Cell(text="")
            continue
        short = grid.pairs - mean.n
        note = f"{short} of {grid.pairs} seeds without a loss" if short else None
        text = f"{mark} {mean.value:.4f}" if place == lowest else f"{mean.value:.4f}"
        means[key] = Cell(mean.value, text=text, heat=scale(mean.value), note=note)
        halves[key] = _half(mean.half)
    return [means, halves] if grid.pairs > 1 else [means]


def _difference_rows(grid: Grid, row: float | None, label: str) -> list[dict[str, Cell]]:
    found = {ratio: grid.difference((row, ratio), label) for ratio in grid.columns}
    scale = _HeatScale(each.mean for each in found.values() if each is not None)
    means, halves = _first_cell(row, "Δ"), _interval_cells(row)
    for ratio, each in found.items():
        key = f"ratio_{ratio:g}"
        if each is None:
            failed = any(grid.has_failed((row, ratio), one) for one in (label, grid.labels[0]))
            means[key] = Cell(failed=failed)
            halves[key] = Cell(text="")
            continue
        text = each.text() if each.unfinished or each.n >= FEWEST_PAIRS else None
        means[key] = Cell(each.mean, text=text, heat=scale(each.mean))
        halves[key] = _half(each.half)
    return [means, halves] if grid.pairs > 1 else [means]


def _half(half: float) -> Cell:
    return Cell(text=ABSENT) if math.isnan(half) else Cell(half, text=f"{half:.4f}")


def _without_loss(status: str | None) -> Cell:
    if status in FAILURES:
        return Cell(failed=True)
    return Cell(text=ABSENT if status in (None, "planned") else status)


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
    pinned = document["facts"]["reference"]["counts"][quantity]
    shown = any(grid.is_shown(label) for label in grid.labels)
    star = f"; {SHOWN_MARK} lowest, and shown to be lower than its neighbours" if shown else ""
    return (
        f"nats per token after {short_count(document['tokens'])} training tokens, the same for all cells; "
        f"{words} matched to {short_count(pinned)}; {LOWEST_MARK} lowest here{star}"
    )
