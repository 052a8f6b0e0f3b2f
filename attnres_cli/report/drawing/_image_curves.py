"""Curves with their intervals as bands."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnres_cli.report import palette
from attnres_cli.report.drawing._image_page import GRID, QUIET, Words, finish, look, new_axes
from attnres_cli.report.drawing._image_scales import set_ticks
from attnres_cli.report.picture import Lines, Series, as_drawn

HEIGHT_INCHES = 1.75
BAND_OPACITY = 0.17


def draw_curves(picture: Lines, *, bare: bool) -> Figure:
    figure, axes = new_axes()
    picture = as_drawn(picture)
    if picture.zero:
        axes.axhline(0.0, color=QUIET, linewidth=0.7, zorder=1)
    for series in sorted(picture.series, key=lambda each: -each.place):  # the baseline on top
        _draw_interval(axes, series)
        axes.plot(series.x, numbers(series.y), zorder=3, **look(series, len(series.x)))  # type: ignore[arg-type]
    _set_scales(axes, picture)
    axes.grid(axis="y", color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)
    is_named = len(picture.series) == 1 and picture.series[0].label in picture.title
    legend = () if is_named else picture.series
    words = Words(picture.title, picture.y.text, picture.x.text, picture.caption, legend)
    finish(figure, axes, words, HEIGHT_INCHES, bare=bare)
    return figure


def numbers(values: Sequence[float | None]) -> list[float]:
    """Gaps as nan, over which no line runs."""
    return [math.nan if value is None else value for value in values]


def _draw_interval(axes: Axes, series: Series) -> None:
    """A band along a curve; bars at points that stand alone."""
    if series.low is None or series.high is None:
        return
    colour = palette.arm_style(series.place).light
    low, high = numbers(series.low), numbers(series.high)
    if series.joined and sum(not math.isnan(value) for value in low) > 1:
        axes.fill_between(series.x, low, high, color=colour, alpha=BAND_OPACITY, linewidth=0, zorder=2)
    else:
        axes.vlines(series.x, low, high, color=colour, linewidth=0.9, zorder=2)


def _set_scales(axes: Axes, picture: Lines) -> None:
    x = [x for series in picture.series for x in series.x]
    y = [y for series in picture.series for y in (*series.y, *(series.low or ()), *(series.high or ()))]
    known = [value for value in y if value is not None] + ([0.0] if picture.zero else [])
    for axis, described, values, shown in (
        (axes.xaxis, picture.x, x, None),
        (axes.yaxis, picture.y, known, picture.y_range),
    ):
        if not values:
            continue
        low, high = shown or with_margin(min(values), max(values), logarithmic=described.logarithmic)
        is_x = axis is axes.xaxis
        if described.logarithmic:
            (axes.set_xscale if is_x else axes.set_yscale)("log")
        (axes.set_xlim if is_x else axes.set_ylim)(low, high)
        set_ticks(axis, described, (low, high), values if is_x else ())


def with_margin(low: float, high: float, *, logarithmic: bool) -> tuple[float, float]:
    if logarithmic:
        factor = (high / low) ** 0.03 if high > low else 1.2
        return low / factor, high * factor
    margin = 0.03 * (high - low) or 0.05 * abs(low) or 0.5
    return low - margin, high + margin
