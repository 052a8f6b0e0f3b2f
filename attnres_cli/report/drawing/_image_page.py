"""What every image has around its axes: title, axis words, legend and caption, laid out in inches from the top.

Laid out by hand, so that the width of a column is kept exactly and long names make the image higher, not illegible.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D

from attnres_cli.report import palette
from attnres_cli.report.picture import Series
from attnres_cli.report.visible import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH_INCHES = 3.4
MARGIN_INCHES = 0.06
INK, QUIET, GRID = "#2f3437", "#5d646b", "#e4e1d9"
POINTS_PER_INCH = 72
TITLE_POINTS, WORDS_POINTS, TICK_POINTS, CAPTION_POINTS = 8.5, 7.5, 7.0, 6.0
LINE_SPACING = 1.3
TICK_GAP_INCHES = 0.05
MEASURED_DOTS_PER_INCH = 300
HANDLE_INCHES, ENTRY_GAP_INCHES = 0.33, 0.14

MARKERS: dict[palette.Marker, str] = {
    "circle": "o", "square": "s", "triangle": "^", "diamond": "D", "cross": "x", "plus": "+", "star": "*",
    "pentagon": "p",
}  # fmt: skip
DASHES: dict[palette.Dash, str] = {"solid": "-", "dot": ":", "dashdot": "-.", "dash": "--"}


@dataclass(frozen=True)
class Words:
    """The texts around the axes. above: of the vertical axis, which stand above it, where they can be read without
    tilting the head. below: of the horizontal axis. right: of what stands right of the axes."""

    title: str
    above: str
    below: str
    caption: str
    legend: Sequence[Series] = ()
    right: str = ""


def new_axes() -> tuple[Figure, Axes]:
    """A figure of the right width with axes that have no place yet."""
    figure = Figure(figsize=(WIDTH_INCHES, 2.0), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_facecolor("white")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GRID)
    axes.tick_params(labelsize=TICK_POINTS, labelcolor=QUIET, color=GRID, length=2, width=0.6, pad=2)
    return figure, axes


def finish(
    figure: Figure, axes: Axes, words: Words, height_inches: float, *, bare: bool, right_inches: float = 0.0
) -> None:
    """Put everything in its place. height_inches: of the axes. right_inches: what stands right of them."""
    title = [] if bare else wrapped(words.title, TITLE_POINTS, weight="bold")
    caption = [] if bare else wrapped(words.caption, CAPTION_POINTS)
    above, below = wrapped(words.above, WORDS_POINTS), wrapped(words.below, WORDS_POINTS)
    above += [""] if words.right and not _fit_beside(words.above, words.right) else []
    legend = _legend_rows(words.legend)
    left, under = _tick_extents(figure, axes)
    heights = {
        "title": _height(title, TITLE_POINTS) + (0.04 if title else 0),
        "above": _height(above, WORDS_POINTS) + (0.03 if above else 0),
        "axes": height_inches,
        "ticks": under + 0.02,
        "below": _height(below, WORDS_POINTS),
        "legend": _height(legend, WORDS_POINTS) + (0.05 if legend else 0),
        "caption": _height(caption, CAPTION_POINTS) + (0.06 if caption else 0),
    }
    total = sum(heights.values()) + 2 * MARGIN_INCHES
    figure.set_size_inches(WIDTH_INCHES, total)
    tops: dict[str, float] = {}
    top = total - MARGIN_INCHES
    for part, height in heights.items():
        tops[part] = top
        top -= height
    width = WIDTH_INCHES - left - right_inches - 2 * MARGIN_INCHES
    axes.set_position(
        ((left + MARGIN_INCHES) / WIDTH_INCHES, (tops["axes"] - height_inches) / total, width / WIDTH_INCHES,
         height_inches / total)
    )  # fmt: skip

    def put(lines: list[str], top: float, size: float, colour: str, weight: str = "normal") -> None:
        figure.text(
            MARGIN_INCHES / WIDTH_INCHES, top / total, "\n".join(lines), fontsize=size, color=colour,
            fontweight=weight, va="top", ha="left", linespacing=LINE_SPACING,
        )  # fmt: skip

    put(title, tops["title"], TITLE_POINTS, INK, "bold")
    put(above, tops["above"], WORDS_POINTS, QUIET)
    figure.text(
        1 - MARGIN_INCHES / WIDTH_INCHES, (tops["above"] - _height(above[:-1], WORDS_POINTS)) / total,
        visible(words.right), fontsize=WORDS_POINTS, color=QUIET, va="top", ha="right", linespacing=LINE_SPACING,
    )  # fmt: skip
    figure.text(
        (left + MARGIN_INCHES + width / 2) / WIDTH_INCHES, tops["below"] / total, "\n".join(below),
        fontsize=WORDS_POINTS, color=QUIET, va="top", ha="center", linespacing=LINE_SPACING,
    )  # fmt: skip
    _put_legend(figure, legend, (tops["legend"] - 0.05) / total, total)
    put(caption, tops["caption"] - 0.06, CAPTION_POINTS, QUIET)


def look(series: Series, points: int) -> dict[str, object]:
    """How the curve of an arm is drawn. points: how many there are; of many not every one is marked."""
    style = palette.arm_style(series.place)
    every = max(1, points // 8)
    return {
        "color": style.light,
        "linestyle": DASHES[palette.SECOND_DASH if series.dashed else style.dash] if series.joined else "none",
        "linewidth": 1.0 if series.dashed else 1.3,
        "marker": None if series.dashed and series.joined else MARKERS[style.marker],
        "markersize": 3.2,
        "markeredgewidth": 0.9,
        "markevery": (series.place % every, every) if points > 40 and series.joined else None,
    }


@lru_cache(maxsize=4096)
def inches_of(text: str, points: float, weight: str = "normal") -> float:
    """How wide a text is."""
    properties = FontProperties(size=points, weight=weight)
    pixels, _, _ = _measuring().get_text_width_height_descent(text, properties, ismath=False)
    return float(pixels) / MEASURED_DOTS_PER_INCH


@cache
def _measuring() -> Any:
    """A canvas on which nothing is drawn; as fine as the images, because letters are put on whole pixels."""
    return RendererAgg(1, 1, MEASURED_DOTS_PER_INCH)  # type: ignore[no-untyped-call]


def wrapped(text: str, points: float, weight: str = "normal") -> list[str]:
    """Lines no wider than the image without its margins; a single word may be."""
    if not text:
        return []
    space = inches_of("a b", points, weight) - inches_of("ab", points, weight)
    lines: list[list[str]] = []
    left = 0.0
    for word in visible(text).replace(" %", "\u00a0%").split(" "):
        width = inches_of(word, points, weight)
        if not lines or width + space > left:
            lines.append([])
            left = WIDTH_INCHES - 2 * MARGIN_INCHES + space
        lines[-1].append(word)
        left -= width + space
    return [" ".join(line) for line in lines]


def shortened(text: str, points: float, room_inches: float) -> str:
    """The beginning and the end of a text that is too wide: what tells arms of one scheme apart stands at its end."""
    text = visible(text)
    if inches_of(text, points) <= room_inches:
        return text

    def cut(kept: int) -> str:
        return f"{text[: -(-kept // 2)]}…{text[len(text) - kept // 2 :]}"

    # The last length that fits, found by halving.
    kept = bisect_left(range(len(text)), True, key=lambda kept: inches_of(cut(kept), points) > room_inches) - 1
    return cut(max(1, kept))


# ---------------------------------------------------------------------- measures


def _fit_beside(left: str, right: str) -> bool:
    return inches_of(f"{visible(left)}  {visible(right)}", WORDS_POINTS) <= WIDTH_INCHES - 2 * MARGIN_INCHES


def _height(lines: Sequence[object], points: float) -> float:
    return len(lines) * points * LINE_SPACING / POINTS_PER_INCH


def _tick_extents(figure: Figure, axes: Axes) -> tuple[float, float]:
    """Inches that the labels of the ticks take left of the axes and below them."""
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]  # of FigureCanvasAgg
    left, under = 0.0, 0.0
    for axis, is_left in ((axes.yaxis, True), (axes.xaxis, False)):
        for label in axis.get_ticklabels():
            if label.get_visible() and label.get_text():
                box = label.get_window_extent(renderer)
                size = (box.width if is_left else box.height) / figure.dpi
                left, under = (max(left, size), under) if is_left else (left, max(under, size))
    return left + TICK_GAP_INCHES if left else 0.0, under + TICK_GAP_INCHES if under else 0.0


# ---------------------------------------------------------------------- the legend

# (what is drawn, its name, inches from the left)
Entry = tuple[Series, str, float]


def _legend_rows(series: Sequence[Series]) -> list[list[Entry]]:
    """As many entries to a row as fit beside each other."""
    room = WIDTH_INCHES - 2 * MARGIN_INCHES
    rows: list[list[Entry]] = []
    x = room
    for each in series:
        name = shortened(each.label, WORDS_POINTS, room - HANDLE_INCHES)
        width = HANDLE_INCHES + inches_of(name, WORDS_POINTS)
        if x + width > room:
            rows.append([])
            x = 0.0
        rows[-1].append((each, name, x))
        x += width + ENTRY_GAP_INCHES
    return rows


def _put_legend(figure: Figure, rows: list[list[Entry]], top: float, total_inches: float) -> None:
    line = WORDS_POINTS * LINE_SPACING / POINTS_PER_INCH / total_inches
    for number, row in enumerate(rows):
        y = top - (number + 0.5) * line
        for each, name, inches in row:
            x = (MARGIN_INCHES + inches) / WIDTH_INCHES
            half = (HANDLE_INCHES - 0.08) / 2 / WIDTH_INCHES
            drawn = {**look(each, 3), "markevery": [1]}
            figure.add_artist(Line2D([x, x + half, x + 2 * half], [y, y, y], **drawn))  # type: ignore[arg-type]
            figure.text(
                x + HANDLE_INCHES / WIDTH_INCHES, y, name, fontsize=WORDS_POINTS, color=INK, va="center_baseline",
                ha="left",
            )  # fmt: skip
