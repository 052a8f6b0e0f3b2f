"""Pictures as Plotly's figures: valid to Plotly, with the numbers of the picture."""

from __future__ import annotations

import math
from typing import Any

import pytest

from attnres_cli.report.drawing import interactive
from attnres_cli.report.picture import Axis, Heat, Lines, Series

CURVE = Series("arm", 1, (0.0, 1.0, 2.0), (3.0, 2.0, None), (2.5, 1.5, None), (3.5, 2.5, None))
LINES = Lines("k", "Title", Axis("steps"), Axis("loss", "nats"), (CURVE,), "words", y_range=(1.0, 4.0), zero=True)
HEAT = Heat(
    "h", "Title", Axis("source"), Axis("site"), ("a", "b"), ("r", "s"), ((0.25, None), (0.5, 1.0)), Axis("weight"),
    0.0, 1.0, "words", marked=frozenset({(1, 0)}),
)  # fmt: skip


def coloured(value: Any, theme: str, key: str = "") -> Any:
    """As the page's script does it."""
    if isinstance(value, dict):
        return {name: coloured(each, theme, name) for name, each in value.items()}
    if isinstance(value, list):
        return [coloured(each, theme) for each in value]
    return interactive.colours()[theme].get(value, value) if isinstance(value, str) and key.endswith("color") else value


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", [LINES, HEAT], ids=["lines", "heat"])
def test_plotly_takes_it(view: Lines | Heat, theme: str) -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects", reason="plotly is not installed")
    figure = coloured(interactive.figure(view), theme)
    assert "@" not in repr(figure)
    graph_objects.Figure(figure)  # raises for what it does not know


def test_a_curve_its_interval_and_its_gap() -> None:
    area, curve = interactive.figure(LINES)["data"]
    assert (curve["x"], curve["y"]) == ([0.0, 1.0, 2.0], [3.0, 2.0, None])
    assert curve["customdata"] == [[2.5, 3.5], [1.5, 2.5], [None, None]]
    assert (area["x"], area["y"]) == ([0.0, 1.0, 1.0, 0.0], [2.5, 1.5, 2.5, 3.5])
    assert area["hoverinfo"] == "skip"
    layout = interactive.figure(LINES)["layout"]
    assert layout["yaxis"]["range"] == [1.0, 4.0]
    assert layout["yaxis"]["zeroline"]
    assert layout["title"]["text"] == "loss (nats)"


def test_an_interval_of_a_lone_point_is_a_bar() -> None:
    lone = Series("arm", 0, (0.0, 1.0, 2.0), (1.0, None, 2.0), (0.5, None, 1.5), (1.5, None, 2.5))
    bars = list(interactive.bands(lone))
    assert [(bar["x"], bar["y"]) for bar in bars] == [([0.0, 0.0], [0.5, 1.5]), ([2.0, 2.0], [1.5, 2.5])]
    points = Series("arm", 0, (0.0, 1.0), (1.0, 2.0), (0.5, 1.5), (1.5, 2.5), joined=False)
    assert len(list(interactive.bands(points))) == 2


def test_a_logarithmic_axis_has_its_ticks_written_out() -> None:
    series = Series("arm", 0, (0.0, 1.0), (0.02, 2.0))
    view = Lines("k", "T", Axis("x"), Axis("y", logarithmic=True), (series,), "w", y_range=(0.01, 3.0))
    y = interactive.figure(view)["layout"]["yaxis"]
    assert y["range"] == [math.log10(0.01), math.log10(3.0)]
    assert y["ticktext"][:6] == ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5"]
    wide = Lines("k", "T", Axis("x"), Axis("y", logarithmic=True), (Series("a", 0, (0.0, 1.0), (1e-9, 1e9)),), "w")
    ticks = interactive.figure(wide)["layout"]["yaxis"]["ticktext"]
    assert len(ticks) <= 10
    assert ticks[0] == "10<sup>-9</sup>"


def test_layers_are_counted_in_whole_numbers() -> None:
    assert interactive.figure(LINES)["layout"]["xaxis"]["dtick"] == 1
    tokens = Lines("k", "T", Axis("tokens"), Axis("y"), (Series("a", 0, (0.0, 40960.0), (1.0, 2.0)),), "w")
    assert "dtick" not in interactive.figure(tokens)["layout"]["xaxis"]


def test_a_grid() -> None:
    figure = interactive.figure(HEAT)
    (trace,) = figure["data"]
    assert trace["z"] == [[0.25, None], [0.5, 1.0]]
    assert (trace["zmin"], trace["zmax"]) == (0.0, 1.0)
    assert figure["layout"]["yaxis"]["autorange"] == "reversed"
    (frame,) = figure["layout"]["shapes"]
    assert (frame["x0"], frame["x1"], frame["y0"], frame["y1"]) == (-0.5, 0.5, 0.5, 1.5)


def test_a_long_curve_is_thinned_and_says_so() -> None:
    values = tuple(math.sin(place / 50) for place in range(10_000))
    series = Series("arm", 0, tuple(map(float, range(10_000))), values)
    view = Lines("k", "T", Axis("x"), Axis("y"), (series,), "w")
    (curve,) = interactive.figure(view)["data"]
    assert len(curve["x"]) <= interactive.MOST_POINTS
    drawn = dict(zip(curve["x"], curve["y"], strict=True))
    assert all(y == pytest.approx(values[int(x)], rel=1e-6, abs=1e-6) for x, y in drawn.items())
    words = interactive.thinning_words(view)
    assert words.startswith(f"Of the 10,000 points of a curve {len(curve['x'])} are drawn")
    assert interactive.thinning_words(LINES) == ""


def test_names_are_no_markup_and_no_template() -> None:
    series = Series("<b>%{y}</b> & @ink", 0, (0.0,), (1.0,))
    view = Lines("k", "T", Axis("<i>x</i>"), Axis("y", names=("<a>", "b")), (series,), "w")
    figure = interactive.figure(view)
    assert figure["data"][-1]["name"] == "&lt;b&gt;%{y}&lt;/b&gt; &amp; @ink"
    assert coloured(figure, "light")["data"][-1]["name"] == "&lt;b&gt;%{y}&lt;/b&gt; &amp; @ink"
    assert figure["layout"]["xaxis"]["title"]["text"] == "&lt;i&gt;x&lt;/i&gt;"
    assert figure["layout"]["yaxis"]["ticktext"] == ["&lt;a&gt;", "b"]


def test_a_point_stands_over_the_middle_of_its_name() -> None:
    """Half a place on either side, so that no name has to reach beyond the edge."""
    series = Series("arm", 0, (0.0, 1.0), (1.0, 2.0), joined=False)
    view = Lines("k", "T", Axis("arm", names=("first", "second")), Axis("y"), (series,), "w")
    assert interactive.figure(view)["layout"]["xaxis"]["range"] == [-0.5, 1.5]
    assert "range" not in interactive.figure(LINES)["layout"]["xaxis"]


def test_the_page_gets_every_name_whole() -> None:
    """More than `figure` sets, for the page knows how many have room; as text, which the page makes markup."""
    names = tuple(f"<b> & source {number}" for number in range(40))
    series = Series("arm", 0, tuple(map(float, range(40))), (1.0,) * 40, joined=False)
    view = Lines("k", "T", Axis("source", names=names), Axis("y"), (series,), "w")
    assert interactive.names(view) == {"xaxis": list(names), "yaxis": []}
    assert interactive.names(HEAT) == {"xaxis": ["a", "b"], "yaxis": ["r", "s"]}
    assert interactive.names(LINES) == {"xaxis": [], "yaxis": []}
