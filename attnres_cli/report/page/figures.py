"""Pictures on the page: what stands there without a script, and the data from which the script draws."""

from __future__ import annotations

import re
from typing import Any

from attnres_cli.report import palette
from attnres_cli.report.data_table import data_table
from attnres_cli.report.drawing import interactive
from attnres_cli.report.page.elements import Html, tag
from attnres_cli.report.page.tables import grid
from attnres_cli.report.picture import Heat, Lines, Picture, Series, Views, all_stills, still

# More views than this are chosen from a list instead of from buttons side by side.
MOST_BUTTONS = 4
# A grid of more columns takes the whole width.
MOST_NARROW_COLUMNS = 16

_DASH_ARRAYS: dict[palette.Dash, str | None] = {
    "solid": None, "dash": "7 4", "dot": "2 3", "dashdot": "7 3 2 3",
}  # fmt: skip
# Around (14, 6), about 7 wide.
_MARKER_PATHS: dict[palette.Marker, str] = {
    "circle": "M10.5 6a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "square": "M11 3h6v6h-6z",
    "triangle": "M14 2l4 7h-8z",
    "diamond": "M14 2l4 4l-4 4l-4-4z",
    "cross": "M11 2l3 3l3-3l1 1l-3 3l3 3l-1 1l-3-3l-3 3l-1-1l3-3l-3-3z",
    "plus": "M13 2h2v3h3v2h-3v3h-2v-3h-3v-2h3z",
    "star": "M14 1.5l1.3 3h3.2l-2.5 2l1 3.2l-3-1.9l-3 1.9l1-3.2l-2.5-2h3.2z",
    "pentagon": "M14 2l4 3l-1.5 4.5h-5l-1.5-4.5z",
}


def picture_block(picture: Picture) -> Html:
    """A figure: title, what it shows in words, controls, drawing, caption, data table."""
    first, key = still(picture), picture.key
    return tag(
        "figure",
        tag("h3", picture.title, id=f"title-{key}"),
        tag("p", _takeaway(picture, first), class_="takeaway", id=f"words-{key}", aria_live="polite"),
        *((_controls(picture), _shown_view(picture)) if isinstance(picture, Views) and len(picture.views) > 1 else ()),
        _legend(picture),
        tag(
            "div", class_="plot js-only", role="img", aria_labelledby=f"title-{key}", aria_describedby=f"words-{key}",
        ),
        tag("figcaption", _caption(first)),
        tag(
            "details",
            tag("summary", "Data table"),
            tag("div", _numbers(first), class_="numbers"),
            class_="data",
            open=True,
        ),
        class_=_classes(first),
        id=f"picture-{key}",
        data_picture=key,
    )  # fmt: skip


def _classes(view: Lines | Heat) -> str:
    if isinstance(view, Lines):
        return "picture"
    return "picture heat wide" if len(view.columns) > MOST_NARROW_COLUMNS else "picture heat"


def picture_data(picture: Picture) -> dict[str, Any]:
    """What the script needs of it, for JSON: per view its name, words, figure and data table."""
    views = picture.views if isinstance(picture, Views) else (picture,)
    names = picture.names if isinstance(picture, Views) else ("",)
    return {
        "shown": picture.shown if isinstance(picture, Views) else 0,
        "views": [
            {"name": name, "words": _takeaway(picture, view), **_view(view)}
            for name, view in zip(names, views, strict=True)
        ],
    }


def _takeaway(picture: Picture, view: Lines | Heat) -> str:
    """What a picture shows, without the title that stands above it."""
    return re.sub(rf"^{re.escape(picture.title)}[^:]*: ", "", view.alternative)


def _view(view: Lines | Heat) -> dict[str, Any]:
    shown = data_table(view)
    texts = shown.shown()
    return {
        "caption": _caption(view),
        "figure": interactive.figure(view),
        "names": interactive.names(view),
        # Which curve of the legend each trace belongs to, so that it can be hidden with it.
        "owners": _owners(view),
        "table": {
            "note": shown.caption,
            "head": [list(pair) for pair in zip(texts.headings, texts.units, strict=True)],
            "numeric": [column.is_numeric for column in shown.columns],
            "rows": texts.rows,
        },
    }


def _owners(view: Lines | Heat) -> list[str]:
    if isinstance(view, Heat):
        return [""]
    bands = [_legend_key(series) for series in view.series for _ in interactive.bands(series)]
    return [*bands, *(_legend_key(series) for series in view.series)]


def _caption(view: Lines | Heat) -> str:
    return " ".join(part for part in (view.caption, interactive.thinning_words(view)) if part)


def _numbers(view: Lines | Heat) -> Html:
    table = data_table(view)
    return tag(
        "div",
        tag("p", table.caption[0].upper() + table.caption[1:] + ".", class_="caption") if table.caption else None,
        grid(table, name=table.title),
    )


# ---------------------------------------------------------------------- controls


def _controls(picture: Views) -> Html:
    if all(re.fullmatch(r"[\d,.]+", name) for name in picture.names):
        return _slider(picture)
    if len(picture.names) <= MOST_BUTTONS:
        return _buttons(picture)
    return _choice(picture)


def _shown_view(picture: Views) -> Html:
    """Which view is shown, where the controls do not say it: on paper, and without a script."""
    others = f"; the HTML file switches between {len(picture.names)} in a browser with scripts."
    name = tag("b", picture.names[picture.shown], data_shown=True)
    return tag("p", f"{picture.by[0].upper()}{picture.by[1:]}: ", name, others, class_="caption chosen")


def _slider(picture: Views) -> Html:
    """Over numbers, such as training steps; it says the number, not its place among them."""
    name = f"view-{picture.key}"
    return tag(
        "p",
        tag("label", picture.by[0].upper() + picture.by[1:], for_=name),
        tag(
            "input", type="range", id=name, min="0", max=str(len(picture.names) - 1), value=str(picture.shown),
            step="1", aria_valuetext=f"{picture.by} {picture.names[picture.shown]}", data_view=True,
        ),
        tag("output", picture.names[picture.shown], for_=name),
        class_="controls slider js-only",
    )  # fmt: skip


def _buttons(picture: Views) -> Html:
    choices = [
        tag(
            "label",
            tag(
                "input", type="radio", name=f"view-{picture.key}", value=str(index),
                checked=index == picture.shown, data_view=True,
            ),
            tag("span", name),
        )
        for index, name in enumerate(picture.names)
    ]  # fmt: skip
    legend = tag("legend", picture.by[0].upper() + picture.by[1:])
    return tag("fieldset", legend, *choices, class_="controls buttons js-only")


def _choice(picture: Views) -> Html:
    name = f"view-{picture.key}"
    options = [
        tag("option", each, value=str(index), selected=index == picture.shown)
        for index, each in enumerate(picture.names)
    ]
    label = tag("label", picture.by[0].upper() + picture.by[1:], for_=name)
    return tag("p", label, tag("select", *options, id=name, data_view=True), class_="controls choice js-only")


# ---------------------------------------------------------------------- legend


def _legend(picture: Picture) -> Html | None:
    """Every curve once, with a box to hide it; grids have their colour bar."""
    curves: dict[str, Series] = {}
    for view in all_stills(picture):
        for series in view.series if isinstance(view, Lines) else ():
            curves.setdefault(_legend_key(series), series)
    if not curves:
        return None
    can_hide = len(curves) > 1
    items = [tag("li", _legend_item(key, series, can_hide=can_hide)) for key, series in curves.items()]
    return tag("ul", *items, class_="legend", aria_label="Curves")


def _legend_item(key: str, series: Series, *, can_hide: bool) -> Html:
    box = tag("input", type="checkbox", checked=True, class_="js-only", data_curve=key) if can_hide else None
    return tag("label" if can_hide else "span", box, swatch(series), tag("span", series.label))


def _legend_key(series: Series) -> str:
    return f"{series.place}{' dashed ' if series.dashed else ' '}{series.label}"


def swatch(series: Series) -> Html:
    style = palette.arm_style(series.place)
    colour = f"var(--arm-{series.place % palette.MOST_COLOURS})"
    dash = palette.SECOND_DASH if series.dashed else style.dash
    line = tag(
        "line", x1=0, y1=6, x2=28, y2=6, stroke=colour, stroke_width=2, stroke_dasharray=_DASH_ARRAYS[dash]
    )  # fmt: skip
    return tag(
        "svg",
        line if series.joined else None,
        tag("path", d=_MARKER_PATHS[style.marker], fill=colour),
        width=28, height=12, viewBox="0 0 28 12", aria_hidden="true", focusable="false",
    )  # fmt: skip
