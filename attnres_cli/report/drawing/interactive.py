"""Pictures as figures of Plotly: plain data that its JavaScript draws on a page, and its Python, too.

Colours are names ("@ink", "@arm-1") that stand for one colour on a light background and for another on a dark one:
`colours` has both. The library itself is not needed here; whoever shows the figures needs it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from attnres_cli.report import palette
from attnres_cli.report.picture import Axis, Heat, Lines, Numbers, Series, as_drawn
from attnres_cli.report.thinning import thinned
from attnres_cli.report.visible import visible

# A page is a few hundred pixels wide: more points than this cannot be told apart.
MOST_POINTS = 600
# Fewer points than this each get a marker; of longer curves so many do.
MARKED_POINTS = 40
MARKERS_ON_A_LONG_CURVE = 8
# Numbers on a picture are rounded to this many digits, far finer than a pixel; tables have all digits.
DIGITS = 7
MOST_TICK_LABELS = 16
FEWEST_COLUMNS_WITHOUT_NUMBERS = 9
MOST_DECADES_IN_STEPS, MOST_DECADES = 2.5, 9
SMALLEST_IN_DIGITS, LARGEST_IN_DIGITS, ROUNDING = 1e-4, 1e6, 1e-9
LINES_PIXELS = 360
ROW_PIXELS, HEAT_EXTRA_PIXELS, LEAST_HEAT_PIXELS, MOST_HEAT_PIXELS = 26, 110, 220, 620

_SYMBOLS: dict[palette.Marker, str] = {
    "circle": "circle", "square": "square", "triangle": "triangle-up", "diamond": "diamond", "cross": "x",
    "plus": "cross", "star": "star", "pentagon": "pentagon",
}  # fmt: skip
Figure = dict[str, Any]


def figure(view: Lines | Heat) -> Figure:
    """{"data": traces, "layout": layout} in Plotly's words."""
    return _lines(view) if isinstance(view, Lines) else _heat(view)


def names(view: Lines | Heat) -> dict[str, list[str]]:
    """What stands at 0, 1, 2 … on either axis, whole and as read; empty on an axis of numbers. Whoever knows how wide
    the page is sets them better than `figure`, which does not know it."""
    across, down = (view.x.names, view.y.names) if isinstance(view, Lines) else (view.columns, view.rows)
    return {"xaxis": [visible(name) for name in across], "yaxis": [visible(name) for name in down]}


def thinning_words(view: Lines | Heat) -> str:
    """What was left out of a long curve; nothing where nothing was."""
    longest = max((len(series.x) for series in view.series), default=0) if isinstance(view, Lines) else 0
    if longest <= MOST_POINTS:
        return ""
    kept = max(len(thinned(series.y, MOST_POINTS)) for series in view.series) if isinstance(view, Lines) else 0
    return (
        f"Of the {longest:,} points of a curve {kept:,} are drawn: of every stretch its lowest and its highest, so "
        "that no spike is lost."
    )


def colours() -> dict[str, dict[str, str]]:
    """Theme ("light", "dark") → name of a colour → the colour."""
    found: dict[str, dict[str, str]] = {
        "light": {"@ink": "#2f3437", "@quiet": "#5d646b", "@grid": "#e4e1d9", "@ground": palette.LIGHT_BACKGROUND},
        "dark": {"@ink": "#e3e5e8", "@quiet": "#a2a9b1", "@grid": "#2c3036", "@ground": palette.DARK_BACKGROUND},
    }
    for place in range(palette.MOST_COLOURS):
        style = palette.arm_style(place)
        for theme, colour in (("light", style.light), ("dark", style.dark)):
            found[theme][f"@arm-{place}"] = colour
            found[theme][f"@band-{place}"] = _translucent(colour)
    return found


# ---------------------------------------------------------------------- curves


def _lines(view: Lines) -> Figure:
    areas = [area for series in as_drawn(view).series for area in bands(series)]
    curves = [_curve(series, view) for series in view.series]
    layout = _layout(view.x, view.y, LINES_PIXELS)
    every_x = [x for series in view.series for x in series.x]
    layout["xaxis"] |= _logarithmic_ticks((min(every_x), max(every_x))) if view.x.logarithmic else _whole_ticks(every_x)
    # Over curves the nearest points speak, however few there are.
    layout |= {"hovermode": "closest"} if view.x.names else {"hovermode": "x unified", "hoverdistance": -1}
    if view.x.names:
        # Half a place on either side, so that the first and the last point stand over the middle of their names.
        layout["xaxis"] |= {"range": [-0.5, len(view.x.names) - 0.5]}
    layout["xaxis"] |= {"spikecolor": "@quiet", "spikethickness": 1}
    y = layout["yaxis"]
    if view.y_range is not None:
        y["range"] = [math.log10(end) if view.y.logarithmic else end for end in view.y_range]
    if view.y.logarithmic:
        y |= _logarithmic_ticks(view.y_range or _ends(view.series))
    if view.zero:
        y |= {"zeroline": True, "zerolinecolor": "@quiet", "zerolinewidth": 1}
    return {"data": [*areas, *curves], "layout": layout}


def _curve(series: Series, view: Lines) -> dict[str, Any]:
    kept = thinned(series.y, MOST_POINTS)
    style, colour = palette.arm_style(series.place), f"@arm-{series.place % palette.MOST_COLOURS}"
    is_long = len(kept) > MARKED_POINTS
    marker: dict[str, Any] = {"symbol": _SYMBOLS[style.marker], "size": 7, "color": colour}
    if is_long and series.joined:
        marker["maxdisplayed"] = MARKERS_ON_A_LONG_CURVE
    with_interval = series.low is not None and series.high is not None
    words = "%{y:.5~g}"
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers" if series.joined else "markers",
        "name": shown(series.label),
        "x": _rounded([series.x[place] for place in kept]),
        "y": _rounded([series.y[place] for place in kept]),
        "line": {"color": colour, "width": 2, "dash": palette.SECOND_DASH if series.dashed else style.dash},
        "marker": marker,
        "connectgaps": False,
        "showlegend": False,
    }
    if with_interval:
        assert series.low is not None, "checked"
        assert series.high is not None, "checked"
        ends = [_rounded([side[place] for place in kept]) for side in (series.low, series.high)]
        trace["customdata"] = [list(pair) for pair in zip(*ends, strict=True)]
        words += " (%{customdata[0]:.5~g} to %{customdata[1]:.5~g})"
    if view.x.names:
        words = "%{x}: " + words
    trace["hovertemplate"] = words
    return trace


def bands(series: Series) -> Iterator[dict[str, Any]]:
    """The interval as an area per unbroken stretch, and as a bar where a stretch is a single point."""
    if series.low is None or series.high is None:
        return
    kept = thinned(series.y, MOST_POINTS)
    colour = f"@band-{series.place % palette.MOST_COLOURS}"
    quiet = {"hoverinfo": "skip", "showlegend": False, "mode": "lines", "type": "scatter"}
    for stretch in _stretches(series.low, series.high, kept, joined=series.joined):
        x = _rounded([series.x[place] for place in stretch])
        low, high = (_rounded([side[place] for place in stretch]) for side in (series.low, series.high))
        if len(stretch) == 1:
            bar = f"@arm-{series.place % palette.MOST_COLOURS}"
            yield {**quiet, "x": x * 2, "y": [*low, *high], "line": {"color": bar, "width": 1.5}}
        else:
            outline = {"x": x + x[::-1], "y": low + high[::-1]}
            yield {**quiet, **outline, "fill": "toself", "fillcolor": colour, "line": {"width": 0, "color": colour}}


def _stretches(low: Numbers, high: Numbers, kept: Sequence[int], *, joined: bool) -> Iterator[list[int]]:
    stretch: list[int] = []
    for place in kept:
        if low[place] is not None and high[place] is not None:
            stretch.append(place)
        if stretch and (not joined or stretch[-1] != place):
            yield stretch
            stretch = []
    if stretch:
        yield stretch


# ---------------------------------------------------------------------- grids


def _heat(view: Heat) -> Figure:
    anchors = palette.DIVERGING if view.diverging else palette.SEQUENTIAL
    scale = [[index / (len(anchors) - 1), palette.css(colour)] for index, colour in enumerate(anchors)]
    values = [_rounded(row) for row in view.values]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "z": values,
        "x": list(range(len(view.columns))),
        "y": list(range(len(view.rows))),
        "zmin": view.low,
        "zmax": view.high,
        "colorscale": scale,
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "customdata": [[[shown(row), shown(column)] for column in view.columns] for row in view.rows],
        "hovertemplate": _heat_words(view),
        "colorbar": {
            "title": {"text": shown(view.value.text), "side": "right", "font": {"color": "@quiet", "size": 12}},
            "thickness": 12, "outlinewidth": 0, "tickfont": {"color": "@quiet"},
        },
    }  # fmt: skip
    if len(view.columns) < FEWEST_COLUMNS_WITHOUT_NUMBERS:
        trace["texttemplate"] = "%{z:+.3~g}" if view.diverging else "%{z:.3~g}"
    height = HEAT_EXTRA_PIXELS + ROW_PIXELS * len(view.rows)
    layout = _layout(view.x, view.y, min(MOST_HEAT_PIXELS, max(LEAST_HEAT_PIXELS, height)))
    layout["xaxis"] |= {**_names_ticks(view.columns), "showgrid": False, "zeroline": False}
    layout["yaxis"] |= {**_names_ticks(view.rows), "showgrid": False, "zeroline": False, "autorange": "reversed"}
    layout["shapes"] = [
        {
            "type": "rect", "x0": column - 0.5, "x1": column + 0.5, "y0": row - 0.5, "y1": row + 0.5,
            "line": {"color": "@arm-2", "width": 3},
        }
        for row, column in sorted(view.marked)
    ]  # fmt: skip
    return {"data": [trace], "layout": layout}


def _heat_words(view: Heat) -> str:
    row, column, value = (_template(axis.label) for axis in (view.y, view.x, view.value))
    unit = f" {_template(view.value.unit)}" if view.value.unit else ""
    number = "%{z:+.5~g}" if view.diverging else "%{z:.5~g}"
    names = f"{row} %{{customdata[0]}}<br>{column} %{{customdata[1]}}"
    return f"{names}<br>{value} {number}{unit}<extra></extra>"


# ---------------------------------------------------------------------- axes and words


def _layout(x: Axis, y: Axis, height_pixels: int) -> dict[str, Any]:
    """The vertical axis says what it is above itself, where it can be read without tilting the head."""
    font = {"color": "@quiet", "size": 12}
    return {
        "height": height_pixels,
        "margin": {"l": 8, "r": 8, "t": 26, "b": 8},
        "font": {"color": "@ink", "size": 13, "family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"},
        "paper_bgcolor": "@ground",
        "plot_bgcolor": "@ground",
        "hoverlabel": {"bgcolor": "@ground", "bordercolor": "@grid", "font": {"color": "@ink"}},
        "xaxis": {**_axis(x), "title": {"text": shown(x.text), "font": font, "standoff": 8}, "showgrid": False},
        "yaxis": _axis(y),
        "title": {
            "text": shown(y.text), "font": font, "x": 0, "xref": "container", "xanchor": "left", "y": 1,
            "yref": "container", "yanchor": "top", "pad": {"t": 4},
        },
    }  # fmt: skip


def _axis(axis: Axis) -> dict[str, Any]:
    names = _names_ticks(axis.names) if axis.names else {}
    kind = "log" if axis.logarithmic else "linear"
    return {
        "type": kind, "automargin": True, "gridcolor": "@grid", "zeroline": False, "linecolor": "@grid",
        "tickfont": {"color": "@quiet"}, "exponentformat": "power" if axis.unit == "FLOPs" else "SI", **names,
    }  # fmt: skip


def _names_ticks(names: Sequence[str]) -> dict[str, Any]:
    """So many of the names as can stand beside each other."""
    every = max(1, math.ceil(len(names) / MOST_TICK_LABELS))
    places = list(range(0, len(names), every))
    return {"tickmode": "array", "tickvals": places, "ticktext": [shown(names[place]) for place in places]}


def _whole_ticks(values: Sequence[float]) -> dict[str, Any]:
    """Layers are counted: no tick stands between two of them."""
    whole = bool(values) and all(value == round(value) for value in values)
    span = max(values) - min(values) if whole else 0.0
    return {"dtick": 1} if whole and span < MOST_TICK_LABELS else {}


def _logarithmic_ticks(ends: tuple[float, float]) -> dict[str, Any]:
    """Ticks written out: 1, 2 and 5 of every decade where there are few, else every decade or every few."""
    first, last = (math.floor(math.log10(end)) for end in ends)
    decades = math.log10(ends[1] / ends[0])
    steps = (1, 2, 5) if decades <= MOST_DECADES_IN_STEPS else (1,)
    every = max(1, math.ceil(decades / MOST_DECADES))
    values = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
    return {"tickmode": "array", "tickvals": values, "ticktext": [_power_words(value) for value in values]}


def _power_words(value: float) -> str:
    if SMALLEST_IN_DIGITS <= value < LARGEST_IN_DIGITS:
        return f"{value:g}"
    power = math.floor(math.log10(value) + ROUNDING)
    digit = round(value / 10.0**power)
    return f"{'' if digit == 1 else f'{digit}×'}10<sup>{power}</sup>"


def _ends(curves: Sequence[Series]) -> tuple[float, float]:
    """The smallest and the largest value of curves on a logarithmic axis."""
    sides = (side or () for series in curves for side in (series.y, series.low, series.high))
    values = [value for side in sides for value in side if value is not None and value > 0]
    return (min(values), max(values)) if values else (1.0, 10.0)


def shown(name: str) -> str:
    """A name as Plotly shows it: it reads some markup, and entities."""
    return escape(visible(name), quote=False)


def _template(words: str) -> str:
    """Words inside a template, in which "%{…}" would be replaced."""
    return shown(words).replace("%{", "% {")


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS}g}") for value in values]


def _translucent(colour: str) -> str:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.17)"
