"""Grids of colours, with their numbers where they fit."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from attnres_cli.report import palette
from attnres_cli.report.drawing._cell_numbers import cell_decimals
from attnres_cli.report.drawing._image_page import (
    GRID,
    MARGIN_INCHES,
    QUIET,
    TICK_POINTS,
    WIDTH_INCHES,
    Words,
    finish,
    inches_of,
    new_axes,
    shortened,
)
from attnres_cli.report.drawing._image_scales import MOST_TICKS, tick_text
from attnres_cli.report.heat import text_colour
from attnres_cli.report.picture import Heat

LEAST_CELL_INCHES, MOST_CELL_INCHES = 0.05, 0.2
MOST_HEIGHT_INCHES = 3.2
LEAST_LABEL_INCHES = 0.11
BAR_INCHES, BAR_GAP_INCHES = 0.09, 0.08
NUMBER_POINTS = 6.0
WIDEST_NAME_INCHES = 1.1
MARK_COLOUR = "#d96a15"


def draw_grid(picture: Heat, *, bare: bool) -> Figure:
    figure, axes = new_axes()
    anchors = palette.DIVERGING if picture.diverging else palette.SEQUENTIAL
    scale = LinearSegmentedColormap.from_list("attnres", [palette.css(each) for each in anchors], N=256)
    colours: Colormap = scale.with_extremes(bad="white")
    values = [[math.nan if value is None else value for value in row] for row in picture.values]
    high = picture.high if picture.high > picture.low else picture.low + 1.0
    image = axes.imshow(
        values, cmap=colours, norm=Normalize(picture.low, high), aspect="auto", interpolation="nearest"
    )  # fmt: skip
    rows = len(picture.rows)
    cell = min(MOST_CELL_INCHES, max(LEAST_CELL_INCHES, MOST_HEIGHT_INCHES / max(1, rows)))
    height = max(0.35, cell * rows)
    _name(axes, picture, height / max(1, rows))
    right = BAR_GAP_INCHES + BAR_INCHES + _bar_label_inches(picture)
    words = Words(picture.title, picture.y.text, picture.x.text, picture.caption, right=picture.value.text)
    finish(figure, axes, words, height, bare=bare, right_inches=right)
    _draw_numbers(axes, picture, colours)
    for row, column in sorted(picture.marked):
        axes.add_patch(
            Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=MARK_COLOUR, linewidth=1.4, zorder=4)
        )
    _draw_bar(figure, axes, image, picture)
    return figure


def _name(axes: Axes, picture: Heat, row_inches: float) -> None:
    """Names of rows and columns: every n-th where there is no room for each."""
    every = max(1, math.ceil(LEAST_LABEL_INCHES / row_inches))
    places = range(0, len(picture.rows), every)
    axes.set_yticks(places, [shortened(picture.rows[place], TICK_POINTS, WIDEST_NAME_INCHES) for place in places])
    names = [shortened(name, TICK_POINTS, WIDEST_NAME_INCHES) for name in picture.columns]
    widest = max((inches_of(name, TICK_POINTS) for name in names), default=0.0)
    room = 0.6 * WIDTH_INCHES / max(1, len(names))
    upright = widest + 0.04 > room
    every = max(1, math.ceil(LEAST_LABEL_INCHES / room)) if upright else 1
    places = range(0, len(names), every)
    axes.set_xticks(places, [names[place] for place in places], rotation=90 if upright else 0)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_numbers(axes: Axes, picture: Heat, colours: Colormap) -> None:
    """In every cell its number, where all of them fit."""
    if all(value is None for row in picture.values for value in row):
        return
    decimals = cell_decimals(picture)
    sign = "+" if picture.diverging else ""
    texts = [[None if value is None else f"{value:{sign}.{decimals}f}" for value in row] for row in picture.values]
    widest = max(inches_of(text, NUMBER_POINTS) for row in texts for text in row if text is not None)
    box = axes.get_position()
    figure = axes.get_figure()
    assert figure is not None, "the axes are part of a figure"
    width = box.width * WIDTH_INCHES / len(picture.columns)
    height = box.height * figure.get_figheight() / len(picture.rows)  # type: ignore[union-attr]
    if widest > 0.95 * width or height < 1.1 * NUMBER_POINTS / 72:
        return
    for row, of_row in enumerate(texts):
        for column, text in enumerate(of_row):
            value = picture.values[row][column]
            if text is not None and value is not None:
                red, green, blue, _ = colours(picture.share(value))
                background = (round(255 * red), round(255 * green), round(255 * blue))
                axes.text(
                    column, row, text.replace("-", "−"), fontsize=NUMBER_POINTS, ha="center", va="center",
                    color=palette.css(text_colour(background)), zorder=3,
                )  # fmt: skip


def _draw_bar(figure: Figure, axes: Axes, image: AxesImage, picture: Heat) -> None:
    box = axes.get_position()
    left = box.x1 + BAR_GAP_INCHES / WIDTH_INCHES
    bar_axes = figure.add_axes((left, box.y0, BAR_INCHES / WIDTH_INCHES, box.height))
    ticks = _bar_ticks(picture)
    bar = Colorbar(bar_axes, image, ticks=ticks)
    bar.outline.set_visible(False)
    bar.ax.set_yticklabels(_bar_texts(picture))
    bar.ax.tick_params(labelsize=TICK_POINTS - 0.5, labelcolor=QUIET, color=GRID, length=2, width=0.5, pad=1.5)


def _bar_ticks(picture: Heat) -> list[float]:
    """Round places between the ends, so few that they stand apart on a low bar."""
    if not picture.high > picture.low:
        return [picture.low]
    most = 2 if len(picture.rows) < MOST_TICKS else 4
    ticks = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(picture.low, picture.high)
    within = [float(tick) for tick in ticks if picture.low <= tick <= picture.high]
    return within or [picture.low, picture.high]  # so narrow a scale holds no round place


def _bar_texts(picture: Heat) -> list[str]:
    return [tick_text(tick, picture.value) for tick in _bar_ticks(picture)]


def _bar_label_inches(picture: Heat) -> float:
    return max(inches_of(text, TICK_POINTS) for text in _bar_texts(picture)) + MARGIN_INCHES
