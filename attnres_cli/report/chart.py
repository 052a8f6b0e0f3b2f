"""A line chart in characters: each curve is drawn with its own letter, so that no colour is needed to tell them
apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from attnres_cli.report.numbers import short_count

SEVERAL = "*"
# Losses fall steeply at first; a scale that shows all of it flattens the end, which is what one wants to compare.
SKIPPED_SHARE = 0.25
LABEL_EVERY_ROWS = 4


@dataclass(frozen=True)
class Curve:
    """marker: the one character it is drawn with. points: (x, y) by ascending x; finite numbers only."""

    marker: str
    label: str
    points: tuple[tuple[float, float], ...]


def line_chart(
    curves: Sequence[Curve],
    *,
    width_columns: int = 76,
    height_rows: int = 14,
    x_unit: str = "tokens",
    y_unit: str = "nats",
) -> tuple[str, ...]:
    """The lines of a chart with axes and a legend, each at most `width_columns` wide (at least 40).

    Between its points a curve is straight; several points in one column are averaged. Cells that several curves share
    show "*". The vertical scale leaves out what lies above every curve's value after the first quarter of the
    horizontal one, and says so. No points at all: one line that says so.
    """
    assert width_columns >= 40
    assert height_rows >= 4
    drawn = [curve for curve in curves if curve.points]
    if not drawn:
        return ("nothing to draw: no finite loss was recorded",)
    x_low = min(curve.points[0][0] for curve in drawn)
    x_high = max(curve.points[-1][0] for curve in drawn)
    y_low = min(y for curve in drawn for _, y in curve.points)
    y_high = max(_highest_after(curve, x_low + SKIPPED_SHARE * (x_high - x_low)) for curve in drawn)
    if y_high == y_low:
        y_low, y_high = y_low - 0.5 * abs(y_low or 1), y_high + 0.5 * abs(y_high or 1)
    labels = _y_labels(y_low, y_high, height_rows)
    margin = max(map(len, labels)) + 2
    columns = width_columns - margin
    cells, is_cut = _cells(drawn, (x_low, x_high), (y_low, y_high), columns, height_rows)
    lines = [f"{y_unit:>{margin - 2}}"]
    lines += [
        f"{label:>{margin - 2}} {'┤' if label else '│'}{''.join(row).rstrip()}"
        for label, row in zip(labels, cells, strict=True)
    ]
    lines.append(" " * (margin - 1) + "└" + "─" * columns)
    lines.append(" " * margin + _x_labels(x_low, x_high, columns, x_unit))
    lines += _legend(drawn, width_columns, margin, overlap=any(SEVERAL in row for row in cells))
    if is_cut:
        lines.append(" " * margin + f"above {y_high:.4g}: not drawn")
    return tuple(lines)


def _highest_after(curve: Curve, x: float) -> float:
    """The largest value from x on, including the one at x, which may lie between two points."""
    later = [y for point_x, y in curve.points if point_x >= x]
    for (left_x, left_y), (right_x, right_y) in pairwise(curve.points):
        if left_x < x < right_x:
            later.append(left_y + (x - left_x) / (right_x - left_x) * (right_y - left_y))
    return max(later, default=curve.points[-1][1])


def _cells(
    curves: Sequence[Curve], xs: tuple[float, float], ys: tuple[float, float], columns: int, rows: int
) -> tuple[list[list[str]], bool]:
    """(rows of characters from the top, whether some of a curve is above the scale)"""
    cells = [[" "] * columns for _ in range(rows)]
    is_cut = False
    for curve in curves:
        for column, y in _per_column(curve, xs, columns).items():
            if y > ys[1]:
                is_cut = True
                continue
            row = round((ys[1] - y) / (ys[1] - ys[0]) * (rows - 1))
            taken = cells[row][column]
            cells[row][column] = curve.marker if taken in (" ", curve.marker) else SEVERAL
    return cells, is_cut


def _per_column(curve: Curve, xs: tuple[float, float], columns: int) -> dict[int, float]:
    """{column: y}: the mean of the points that fall into a column, and straight lines across the columns between
    them."""
    span = xs[1] - xs[0]
    found: dict[int, list[float]] = {}
    for x, y in curve.points:
        found.setdefault(round((x - xs[0]) / span * (columns - 1)) if span else columns - 1, []).append(y)
    means = {column: sum(values) / len(values) for column, values in sorted(found.items())}
    filled = dict(means)
    known = list(means)
    for left, right in pairwise(known):
        for column in range(left + 1, right):
            share = (column - left) / (right - left)
            filled[column] = means[left] + share * (means[right] - means[left])
    return filled


def _y_labels(low: float, high: float, rows: int) -> list[str]:
    """A number at the top, at the bottom and at every fourth row; the others are blank."""
    step = (high - low) / (rows - 1)
    decimals = min(6, max(0, 1 - math.floor(math.log10(LABEL_EVERY_ROWS * step))))
    labelled = {row for row in range(rows) if row % LABEL_EVERY_ROWS == 0 and row + 2 < rows} | {rows - 1}
    return [f"{high - row * step:.{decimals}f}" if row in labelled else "" for row in range(rows)]


def _x_labels(low: float, high: float, columns: int, unit: str) -> str:
    left, middle, right = short_count(low), short_count((low + high) / 2), f"{short_count(high)} {unit}"
    if low == high:
        return f"{right:>{columns}}"
    line = left + " " * max(1, columns // 2 - len(left) - len(middle) // 2) + middle
    return line + right.rjust(columns - len(line))


def _legend(curves: Sequence[Curve], width: int, margin: int, *, overlap: bool) -> list[str]:
    """The curves by letter, as many to a line as fit."""
    entries = [curve.label for curve in curves] + ([f"{SEVERAL} several"] if overlap else [])
    lines = [" " * margin]
    for entry in entries:
        if lines[-1].strip() and len(lines[-1]) + len(entry) + 3 > width:
            lines.append(" " * margin)
        lines[-1] += ("   " if lines[-1].strip() else "") + entry
    return lines
