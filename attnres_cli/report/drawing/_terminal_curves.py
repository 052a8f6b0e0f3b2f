"""Curves in characters: each with its own letter, its interval as dots around it."""

from __future__ import annotations

from itertools import pairwise

from attnres_cli.report.drawing._terminal_scale import Scale
from attnres_cli.report.drawing._terminal_words import folded, legend, markers_of, padded, shortened
from attnres_cli.report.numbers import short_count
from attnres_cli.report.picture import Axis, Lines, Numbers, Series, as_drawn

HEIGHT_ROWS = 14
LABEL_EVERY_ROWS = 4
SEVERAL, BAND, SECOND, ZERO = "*", "·", "-", "─"
NOTHING = "nothing to draw: no number was recorded"
Cells = list[list[str]]


def draw_curves(picture: Lines, width: int) -> tuple[tuple[str, ...], str]:
    """(lines, the letters that draw the curves). Where several curves meet a cell shows "*"; a dashed one is drawn with
    "-"."""
    picture = as_drawn(picture)
    values = [y for series in picture.series for y in series.y if y is not None]
    if not values:
        return (NOTHING,), ""
    markers = markers_of(picture.series)
    y = _vertical(picture, values)
    labels = _labels(y, picture.y)
    margin = max(map(len, labels)) + 2
    x = _horizontal(picture, width - margin)
    cells: Cells = [[" "] * x.cells for _ in range(HEIGHT_ROWS)]
    if picture.zero and (row := _row(0.0, y)) is not None:
        cells[row] = [ZERO] * x.cells
    drawn = [(series, marker) for series, marker in zip(picture.series, markers, strict=True) if marker]
    has_band = [_draw_band(cells, series, x, y) for series, _ in drawn]
    cut = [_draw_curve(cells, series, marker, x, y) for series, marker in drawn]
    lines = folded(picture.y.text, width)
    lines += [
        f"{label:>{margin - 2}} {'┤' if label else '│'}{''.join(row).rstrip()}"
        for label, row in zip(labels, cells, strict=True)
    ]
    lines.append(" " * (margin - 1) + "└" + "─" * x.cells)
    lines.append(" " * margin + _x_labels(x, picture.x))
    lines += [padded(line, width, right=True) for line in folded(picture.x.text, width)]
    shown = "".join(character for row in cells for character in row)
    extra = [f"{SEVERAL} several"] if SEVERAL in shown else []
    extra += [f"{BAND} interval"] if any(has_band) and BAND in shown else []
    extra += [f"{SECOND} {shortened(_second_name(picture), width - 2)}"] if SECOND in shown else []
    lines += legend(picture, markers, width, extra)
    sides = [side for side, is_cut in zip(("below", "above"), map(any, zip(*cut, strict=True)), strict=True) if is_cut]
    for side in sides:
        lines.append(f"{side} {y.label(0 if side == 'below' else HEIGHT_ROWS - 1, picture.y)}: not drawn")
    lines += folded(picture.caption, width)
    return tuple(lines), "".join(dict.fromkeys(markers))


def _second_name(picture: Lines) -> str:
    """What the dashed curves are: the words that their labels share after a comma ("prenorm, fitted law")."""
    labels = [series.label for series in picture.series if series.dashed]
    endings = {label.rpartition(", ")[2] for label in labels}
    return endings.pop() if len(endings) == 1 else " and ".join(labels)


# ---------------------------------------------------------------------- scales


def _vertical(picture: Lines, values: list[float]) -> Scale:
    if picture.y_range is not None:
        return Scale.around(*picture.y_range, HEIGHT_ROWS, logarithmic=picture.y.logarithmic)
    limits = [*values, *([0.0] if picture.zero else [])]
    for series in picture.series:
        for side in (series.low or (), series.high or ()):
            limits += [value for value in side if value is not None]
    return Scale.around(min(limits), max(limits), HEIGHT_ROWS, logarithmic=picture.y.logarithmic)


def _horizontal(picture: Lines, cells: int) -> Scale:
    x = [x for series in picture.series for x, y in zip(series.x, series.y, strict=True) if y is not None]
    return Scale.around(min(x), max(x), cells, logarithmic=picture.x.logarithmic)


def _row(value: float, y: Scale) -> int | None:
    """Rows count from the top, the scale from the bottom."""
    cell = y.cell(value)
    return None if cell is None else HEIGHT_ROWS - 1 - cell


def _labels(y: Scale, axis: Axis) -> list[str]:
    """A number at the top, at the bottom and at every fourth row."""
    rows = {row for row in range(HEIGHT_ROWS) if row % LABEL_EVERY_ROWS == 0 and row + 2 < HEIGHT_ROWS}
    rows.add(HEIGHT_ROWS - 1)
    return [y.label(HEIGHT_ROWS - 1 - row, axis) if row in rows else "" for row in range(HEIGHT_ROWS)]


def _x_labels(x: Scale, axis: Axis) -> str:
    """Both ends, and the middle where there is room."""
    left, middle, right = (_x_text(x.value(cell), axis) for cell in (0, (x.cells - 1) / 2, x.cells - 1))
    line = f"{left}{right:>{x.cells - len(left)}}"
    start = (x.cells - len(middle)) // 2
    if len(left) + 2 <= start and start + len(middle) + 2 <= x.cells - len(right):
        line = line[:start] + middle + line[start + len(middle) :]
    return line


def _x_text(value: float, axis: Axis) -> str:
    return f"{value:.2g}" if "FLOPs" in axis.text else short_count(value)


# ---------------------------------------------------------------------- drawing


def _draw_curve(cells: Cells, series: Series, marker: str, x: Scale, y: Scale) -> tuple[bool, bool]:
    """Whether some of it lies below the scale, and above it."""
    character = SECOND if series.dashed else marker
    below = above = False
    for column, value in _columns(series, series.y, x).items():
        row = _row(value, y)
        if row is None:
            below, above = below or y.place(value) < 0, above or y.place(value) > 0
            continue
        taken = cells[row][column]
        free = taken in (" ", BAND, ZERO, SECOND, character)
        if not (character == SECOND and taken not in (" ", BAND, ZERO)):
            cells[row][column] = character if free else SEVERAL
    return below, above


def _draw_band(cells: Cells, series: Series, x: Scale, y: Scale) -> bool:
    """Both ends of the interval, as two dotted curves. Whether there are any."""
    if series.low is None or series.high is None:
        return False
    lows, highs = (_columns(series, side, x) for side in (series.low, series.high))
    for column in lows.keys() & highs.keys():
        for end in (lows[column], highs[column]):
            row = _row(end, y)
            if row is not None and cells[row][column] == " ":
                cells[row][column] = BAND
    return bool(lows)


def _columns(series: Series, values: Numbers, x: Scale) -> dict[int, float]:
    """{column: value}: the mean of the points that fall into a column, and straight lines across the columns between
    neighbouring points; none across a gap."""
    found: dict[int, list[float]] = {}
    joined: list[tuple[int, int]] = []
    before: int | None = None
    for place, value in zip(series.x, values, strict=True):
        if value is None:
            before = None
            continue
        column = x.clamped(place)
        found.setdefault(column, []).append(value)
        if before is not None and before != column:
            joined.append((min(before, column), max(before, column)))
        before = column
    means = {column: sum(each) / len(each) for column, each in found.items()}
    filled = dict(means)
    for left, right in joined if series.joined else ():
        known = sorted(column for column in means if left <= column <= right)
        for first, last in pairwise(known):
            for column in range(first + 1, last):
                share = (column - first) / (last - first)
                filled[column] = means[first] + share * (means[last] - means[first])
    return filled
