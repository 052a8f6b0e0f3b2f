"""Points that belong to names, in characters: a line per name and series, with the interval around the letter."""

from __future__ import annotations

from attnres_cli.report.drawing._terminal_curves import NOTHING
from attnres_cli.report.drawing._terminal_scale import Scale
from attnres_cli.report.drawing._terminal_words import columns_of, folded, legend, markers_of, padded, shortened
from attnres_cli.report.picture import Lines, Series

LONGEST_NAME = 24
ZERO = "│"
LONELY_MARKER = "•"


def draw_points(picture: Lines, width: int) -> tuple[tuple[str, ...], str]:
    """(lines, the letters that are drawn). Where the names are those of the arms themselves, or there is one series, a
    dot takes the place of the letters."""
    values = [
        value
        for series in picture.series
        for side in (series.y, series.low or (), series.high or ())
        for value in side
        if value is not None
    ]
    if not values:
        return (NOTHING,), ""
    shares_rows = len(picture.series) > 1 and any(sum(y is not None for y in each.y) > 1 for each in picture.series)
    markers = markers_of(picture.series) if shares_rows else [LONELY_MARKER] * len(picture.series)
    limits = [*values, *([0.0] if picture.zero else [])]
    room = min(LONGEST_NAME, width // 3)
    names = [shortened(name, room) for name in picture.x.names]
    margin = max(map(columns_of, names), default=0) + 2
    scale = Scale.around(min(limits), max(limits), width - margin, logarithmic=picture.y.logarithmic)
    lines: list[str] = []
    for row, name in enumerate(names):
        label = name
        for series, marker in zip(picture.series, markers, strict=True):
            drawn = _line(series, row, marker, scale, has_zero=picture.zero) if marker else None
            if drawn is not None:
                lines.append(f"{padded(label, margin)}{drawn}".rstrip())
                label = ""
        if label:
            lines.append(f"{padded(label, margin)}—")
    lines += [" " * margin + each for each in _axis(scale, picture)]
    lines += [padded(line, width, right=True) for line in folded(picture.y.text, width)]
    is_named = shares_rows or (len(picture.series) == 1 and picture.series[0].label not in picture.title)
    lines += legend(picture, markers, width) if is_named else []
    lines += folded(picture.caption, width)
    return tuple(lines), "".join(dict.fromkeys(markers)) if shares_rows else ""


def _line(series: Series, row: int, marker: str, scale: Scale, *, has_zero: bool) -> str | None:
    """What the series has for this name."""
    index = next((index for index, x in enumerate(series.x) if x == row), None)
    value = None if index is None else series.y[index]
    if index is None or value is None:
        return None
    cells = [" "] * scale.cells
    if has_zero:
        cells[scale.clamped(0.0)] = ZERO
    low, high = (side[index] if side is not None else None for side in (series.low, series.high))
    if low is not None and high is not None:
        left, right = scale.clamped(low), scale.clamped(high)
        cells[left : right + 1] = "─" * (right + 1 - left)
        cells[left], cells[right] = "├", "┤"
    cells[scale.clamped(value)] = marker
    return "".join(cells)


def _axis(scale: Scale, picture: Lines) -> list[str]:
    """The rule below, and the numbers: both ends, and zero where it does not touch them."""
    rule = ["─"] * scale.cells
    left, right = scale.label(0, picture.y), scale.label(scale.cells - 1, picture.y)
    numbers = list(f"{left}{right:>{scale.cells - len(left)}}")
    if picture.zero:
        zero = scale.clamped(0.0)
        rule[zero] = "┴"
        if len(left) < zero - 1 and zero + 1 < scale.cells - len(right):
            numbers[zero] = "0"
    return ["".join(rule), "".join(numbers)]
