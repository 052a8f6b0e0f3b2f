"""Points that belong to names: a row per name, which can be read without tilting the head, and bars for intervals."""

from __future__ import annotations

from matplotlib.figure import Figure

from attnres_cli.report import palette
from attnres_cli.report.drawing._image_curves import numbers, with_margin
from attnres_cli.report.drawing._image_page import GRID, QUIET, TICK_POINTS, Words, finish, look, new_axes, shortened
from attnres_cli.report.drawing._image_scales import set_ticks
from attnres_cli.report.picture import Lines

ROW_INCHES = 0.19
LEAST_HEIGHT_INCHES = 0.6
# Of a row, between the points of the first arm and the last.
SPREAD = 0.5
WIDEST_NAME_INCHES = 1.5


def draw_points(picture: Lines, *, bare: bool) -> Figure:
    figure, axes = new_axes()
    names, series = picture.x.names, picture.series
    shares_rows = any(sum(y is not None for y in each.y) > 1 for each in series) and len(series) > 1
    if picture.zero:
        axes.axvline(0.0, color=QUIET, linewidth=0.7, zorder=1)
    for index, each in enumerate(series):
        offset = SPREAD * (index / (len(series) - 1) - 0.5) if shares_rows else 0.0
        rows = [row + offset for row in each.x]
        if each.low is not None and each.high is not None:
            colour = palette.arm_style(each.place).light
            axes.hlines(rows, numbers(each.low), numbers(each.high), color=colour, linewidth=0.9, zorder=2)
        axes.plot(numbers(each.y), rows, zorder=3, **{**look(each, len(rows)), "linestyle": "none"})  # type: ignore[arg-type]
    values = [
        value
        for each in series
        for value in (*each.y, *(each.low or ()), *(each.high or ()), 0.0 if picture.zero else None)
        if value is not None
    ]
    low, high = with_margin(min(values, default=0.0), max(values, default=1.0), logarithmic=False)
    axes.set_xlim(low, high)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), [shortened(name, TICK_POINTS, WIDEST_NAME_INCHES) for name in names])
    set_ticks(axes.xaxis, picture.y, (low, high), ())
    axes.grid(axis="x", color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)
    is_named = shares_rows or (len(series) == 1 and series[0].label not in picture.title)
    words = Words(picture.title, "", picture.y.text, picture.caption, series if is_named else ())
    height = max(LEAST_HEIGHT_INCHES, ROW_INCHES * len(names) * (1 + 0.35 * shares_rows * (len(series) - 1)))
    finish(figure, axes, words, height, bare=bare)
    return figure
