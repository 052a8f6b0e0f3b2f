"""The smooth optimum of d_model / L_b: by row of a depth-width grid and scheme, with its interval, and whether it moved
from the first scheme to the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnres_cli.analysis.optimum import FEWEST_CELLS, RowOptimum, optimum_shift, row_optimum
from attnres_cli.analysis.paired import FEWEST_PAIRS, PairedDifference
from attnres_cli.report.sweep_grid import Grid
from attnres_cli.report.sweep_results import NOT_SHOWN, UNFINISHED

RowAndArm = tuple[float | None, str]


@dataclass(frozen=True)
class Optima:
    """by (heads/L_b or None, arm). shifts: the log ratio of an arm's optimum over the first arm's, paired by seed; only
    where both lie inside the grid and two seeds are in both."""

    found: Mapping[RowAndArm, RowOptimum]
    shifts: Mapping[RowAndArm, PairedDifference]

    @classmethod
    def of(cls, grid: Grid) -> Optima:
        found = {}
        for row in grid.rows:
            columns = [column for column in grid.columns if (row, column) in grid.compared()]
            if len(columns) < FEWEST_CELLS:
                continue
            for label in grid.labels:
                losses = [grid.losses((row, column), label) for column in columns]
                seeds = grid.document["seeds"]
                by_cell = [[each.get(seed, math.nan) for seed in seeds] for each in losses]
                found[row, label] = row_optimum(_realised(grid, row, columns), by_cell)
        shifts = {
            (row, label): shift
            for (row, label), optimum in found.items()
            if label != grid.labels[0] and (shift := optimum_shift(optimum, found[row, grid.labels[0]])) is not None
        }
        return cls(found, shifts)

    def to_dict(self) -> list[dict[str, Any]]:
        return [
            {
                "head_ratio": row,
                "arm": label,
                "ratio": each.ratio,
                "low": each.low,
                "high": each.high,
                "edge": each.edge,
                "loss": each.loss,
                "seeds": each.seeds,
                "shift": _shift_facts(self.shifts.get((row, label))),
            }
            for (row, label), each in self.found.items()
        ]


def moved_sentences(grid: Grid, optima: Optima) -> list[str]:
    """Per row and scheme: whether the smooth optimum moved, or why that cannot be said."""
    if len(grid.labels) == 1 or not grid.compared():
        return []
    if grid.pairs < FEWEST_PAIRS:
        return [f"Whether the smooth optimum moved cannot be said from fewer than {FEWEST_PAIRS} seeds."]
    return [_moved(grid, optima, row, label) for row in grid.rows for label in grid.labels[1:]]


def _moved(grid: Grid, optima: Optima, row: float | None, label: str) -> str:
    where = "" if row is None else f" at heads/L_b {row:g}"
    shift = optima.shifts.get((row, label))
    waits = any(
        grid.results.waits_for(cell["key"], *grid.labels) for place, cell in grid.cells.items() if place[0] == row
    )
    if waits or shift is None or shift.n < FEWEST_PAIRS:
        reason = f"unfinished ({UNFINISHED})" if waits else _why_unsaid(grid, optima, row, label)
        return f"Whether the smooth optimum{where} moved from {grid.labels[0]} to {label} cannot be said: {reason}."
    factor, low, high = (math.exp(each) for each in (shift.mean, shift.low, shift.high))
    if shift.low <= 0 <= shift.high:
        verdict = f"that it moved is not shown ({NOT_SHOWN})"
    else:
        verdict = f"it moved, to {'deeper and narrower' if factor < 1 else 'shallower and wider'} shapes"
    return (
        f"Smooth optimum of d_model/L_b{where}: {label}'s is {factor:.2f} × {grid.labels[0]}'s "
        f"(95 %: {low:.2f} to {high:.2f}): {verdict}."
    )


def _why_unsaid(grid: Grid, optima: Optima, row: float | None, label: str) -> str:
    if (row, label) not in optima.found:
        return f"fewer than {FEWEST_CELLS} cells have every loss"
    for each in (grid.labels[0], label):
        if (edge := optima.found[row, each].edge) is not None:
            return f"{each}'s lies at the {edge} d_model/L_b or beyond it"
    return f"fewer than {FEWEST_PAIRS} seeds have a loss in every cell"


def _realised(grid: Grid, row: float | None, columns: list[float]) -> list[float]:
    """d_model / L_b of the shapes that were trained, which is not quite what was asked for."""
    return [float(grid.cells[row, column]["facts"]["realised_ratio"]) for column in columns]


def _shift_facts(shift: PairedDifference | None) -> dict[str, float] | None:
    if shift is None:
        return None
    values = {"factor": shift.mean, "low": shift.low, "high": shift.high}
    return {**{key: math.exp(value) for key, value in values.items()}, "p": shift.p, "pairs": shift.n}
