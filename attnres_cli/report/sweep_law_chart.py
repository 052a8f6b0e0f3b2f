"""Losses over compute and the laws through them, both axes logarithmic, in characters: a law is a straight line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from attnres_cli.report.document import Chart
from attnres_cli.report.tables.sweep_laws import FLOPS_PER_PFLOP_S_DAY, Laws

MARKERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LINE = "·"
SEVERAL = "*"
HEIGHT_ROWS = 14
WIDEST_COLUMNS = 76
MARGIN_COLUMNS = 9
# Of the span of losses, above and below.
ROOM = 0.08


def laws_chart(laws: Laws, width_columns: int | None) -> Chart:
    """Mean losses by their arm's letter, "*" where several meet, and each law as a line of dots between its sizes."""
    columns = min(width_columns or WIDEST_COLUMNS, WIDEST_COLUMNS) - MARGIN_COLUMNS
    means = {
        label: [(math.log(x), math.log(_mean(by_seed))) for x, by_seed in zip(each.compute, each.losses, strict=True)]
        for label, each in laws.points.items()
    }
    places = [place for points in means.values() for place in points]
    left, right = (end(x for x, _ in places) for end in (min, max))
    low, high = (end(y for _, y in places) for end in (min, max))
    room = ROOM * (high - low) or 0.01
    low, high = low - room, high + room

    cells: dict[tuple[int, int], str] = {}

    def put(x: float, y: float, mark: str) -> None:
        column = round((x - left) / (right - left) * (columns - 1))
        row = round((high - y) / (high - low) * (HEIGHT_ROWS - 1))
        if 0 <= row < HEIGHT_ROWS:
            before = cells.get((row, column), LINE)
            cells[row, column] = mark if before in (LINE, mark) else before if mark == LINE else SEVERAL

    for law in laws.fitted.values():
        for column in range(columns):
            x = left + (right - left) * column / (columns - 1)
            put(x, math.log(law.law.loss(math.exp(x))), LINE)
    for marker, points in zip(MARKERS, means.values(), strict=False):
        for x, y in points:
            put(x, y, marker)
    rows = [_row(cells, row, columns, high - (high - low) * row / (HEIGHT_ROWS - 1)) for row in range(HEIGHT_ROWS)]
    ends = [f"{math.exp(each) * FLOPS_PER_PFLOP_S_DAY:.2g}" for each in (left, right)]
    axis = " " * MARGIN_COLUMNS + ends[0] + f"{ends[1]} FLOPs".rjust(columns - len(ends[0]))
    legend = "  ".join(f"{marker} {label}" for marker, label in zip(MARKERS, means, strict=False))
    lines = (
        *rows,
        " " * (MARGIN_COLUMNS - 1) + "└" + "─" * columns,
        axis,
        f"{legend}  {SEVERAL} several  {LINE} the law",
    )
    return Chart("Loss over training FLOPs, both logarithmic", lines, markers=MARKERS[: len(means)])


def _row(cells: Mapping[tuple[int, int], str], row: int, columns: int, y: float) -> str:
    label = f"{math.exp(y):.3f}" if row % 4 == 0 or row == HEIGHT_ROWS - 1 else ""
    text = "".join(cells.get((row, column), " ") for column in range(columns))
    return f"{label:>{MARGIN_COLUMNS - 2}} {'┤' if label else '│'}{text}".rstrip()


def _mean(by_seed: Mapping[int, float]) -> float:
    values: Sequence[float] = list(by_seed.values())
    return math.fsum(values) / len(values)
