"""The page as HTML: what stands on it, and that nothing from outside becomes markup. In a browser: tests/browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnres_cli.report import palette
from attnres_cli.report.compare import compare_document
from attnres_cli.report.compared_run import read_runs
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.contents import Report, Section, all_pictures, comparison_report, sweep_report
from attnres_cli.report.document import Notice
from attnres_cli.report.drawing import interactive
from attnres_cli.report.page.elements import tag
from attnres_cli.report.page.figures import picture_block, picture_data
from attnres_cli.report.page.page import page
from attnres_cli.report.page.tables import (
    MOST_PRINTED_COLUMNS,
    MOST_UNSCRIPTED_COLUMNS,
    grid,
    notice_block,
    table_block,
)
from attnres_cli.report.picture import Axis, Heat, Lines, Series, Views, all_stills
from attnres_cli.report.provenance import provenance
from attnres_cli.report.table import Cell, Column, Table
from attnres_cli.report.visible import visible
from tests.fabricated_runs import BLOCK_SCHEME, fabricate
from tests.fabricated_sweep import sweep_document
from tests.html_tree import Element, parse
from tests.report.groups import comparison as comparison_of
from tests.reported_runs import HOSTILE, arms_of_three, hostile_arms

LIBRARY = "window.Plotly = {};"
COMMAND = "attnres report three -o report.html"
WRITTEN = datetime(2026, 11, 30, 17, 5, tzinfo=UTC)


def written(report: Report) -> Element:
    return parse(page(report, LIBRARY, command=COMMAND, written=WRITTEN))


def data_of(tree: Element) -> dict[str, Any]:
    """What the page's script draws from."""
    found: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(tree.one("script", id="data").text)))
    return found


def block_of(tree: Element, key: str) -> Element:
    """The table of this name with all that belongs to it."""
    return next(each for each in tree.all("section", class_="table-block") if any(each.all("h3", id=f"table-{key}")))


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return comparison_of(arms_of_three(tmp_path_factory.mktemp("three")))


@pytest.fixture(scope="module")
def report(compared: Comparison) -> Report:
    return comparison_report(compared, words="three")


@pytest.fixture(scope="module")
def tree(report: Report) -> Element:
    return written(report)


# ------------------------------------------------------------------ numbers


def test_the_numbers_are_those_of_compare(compared: Comparison, tree: Element) -> None:
    """Every number of every table of `compare --json`, to the last bit, in the same rows and columns."""
    counted = 0
    for key, table in compare_document(compared).tables.items():
        section = block_of(tree, key)
        rows = [row for body in section.all("tbody") for row in body.all("tr")]
        assert len(rows) == len(table.rows)
        for row, values in zip(rows, table.to_dict()["rows"], strict=True):
            cells = [each for each in row.children if isinstance(each, Element)]
            for column, cell in zip(table.columns, cells, strict=True):
                shown = [float(each.attributes["value"] or "") for each in cell.all("data")]
                expected = values[column.key]
                is_number = isinstance(expected, (int, float)) and column.is_numeric
                assert shown == ([expected] if is_number else [])
                counted += len(shown)
    assert counted > 50


def test_the_verdict_stands_on_top(report: Report, tree: Element) -> None:
    verdict = next(tree.one("main").all("section"))
    assert verdict.one("h2").text == "Verdict"
    assert verdict.one("p", class_="headline").text == "Of 2 arms: 1 better than prenorm, 1 not shown to differ."
    claims = [each.text for each in verdict.one("ul", class_="claims").all("li")]
    assert "attnres-block is shown to be better than prenorm. -0.0520 nats" in claims[0]
    assert "No difference between attnres-full and prenorm is shown." in claims[1]
    for claim in report.claims:
        assert claim.sentence in verdict.text


def test_every_pair_is_a_dot_where_its_difference_is(report: Report, tree: Element) -> None:
    """The strips are drawn to scale: positions are linear in the differences."""
    strips = list(tree.one("figure", class_="strips").all("svg"))
    points: list[tuple[float, float]] = []
    for claim, strip in zip(report.claims, strips, strict=True):
        assert claim.mean is not None
        values = (*claim.differences, claim.mean)
        circles = [float((each.attributes["cx"] or "").rstrip("%")) for each in strip.all("circle")]
        points += zip(values, circles, strict=True)
        zero = float((strip.one("line", class_="zero").attributes["x1"] or "").rstrip("%"))
        points.append((0.0, zero))
        for value in claim.differences:
            assert f"{value:+.4f}" in (strip.attributes["aria-label"] or "")
    (x0, y0), (x1, y1) = min(points), max(points)
    slope = (y1 - y0) / (x1 - x0)
    assert slope > 0
    for value, place in points:
        assert place == pytest.approx(y0 + slope * (value - x0), abs=0.02)
        assert 0 <= place <= 100


def test_what_reproduces_it(tree: Element) -> None:
    section = next(each for each in tree.all("section") if each.attributes.get("aria-labelledby") == "reproduce")
    commands = section.one("code", id="commands").text.split("\n")
    assert commands == ["attnres train cpu-tiny", "attnres compare three", COMMAND]
    facts = dict(
        zip((each.text for each in section.all("dt")), (each.text for each in section.all("dd")), strict=True)
    )  # fmt: skip
    assert facts["training tokens, SHA-256"] == "a" * 64
    assert facts["torch"] == "2.13.0"
    assert facts["deterministic"] == "yes"
    apart = block_of(section, "provenance")
    assert [row.one("th").text for row in apart.one("tbody").all("tr")][:3] == [
        "prenorm-s0",
        "prenorm-s1",
        "prenorm-s2",
    ]
    assert 'scheme = "prenorm"' in section.one("code", id="preset-0").text


def test_what_was_not_probed_is_said(tmp_path: Path) -> None:
    bare = comparison_report(comparison_of(arms_of_three(tmp_path, probes=())), words="three")
    notice = next(item for section in bare.sections for item in section.items if isinstance(item, Notice))
    assert notice.lines == (
        "Not measured for these runs: mixing, importance, removal, lens, smoothing. Measure with attnres probe three, "
        "then write the report again.",
    )


def test_single_runs_are_called_by_their_letters(tmp_path: Path) -> None:
    runs = [fabricate(tmp_path, "a"), fabricate(tmp_path, "b", residual=BLOCK_SCHEME, better_by=0.05)]
    found = comparison_report(Comparison.of_runs(read_runs(runs), bench_note="--no-bench"))
    assert found.headline == "B attnres-block ends lower than A prenorm, in one run of each."
    assert "one run of each: no interval" in written(found).one("ul", class_="claims").text


def test_many_single_runs_show_no_spread(tmp_path: Path) -> None:
    runs = [fabricate(tmp_path, name, better_by=better) for name, better in (("a", 0.0), ("b", 0.1), ("c", -0.1))]
    found = comparison_report(Comparison.of_runs(read_runs(runs), bench_note="--no-bench"))
    assert found.headline == (
        "Of 2 runs: 1 lower than A prenorm in one run of each, which shows no spread, 1 higher than A prenorm in one "
        "run of each, which shows no spread."
    )


def test_a_sweep_of_several_cells_shows_its_grids() -> None:
    document = sweep_document({(None, 8.0): (3.2, 3.1), (None, 16.0): (3.0, 2.9), (None, 32.0): (3.3, 3.2)})
    found = sweep_report(document, {}, None, words="grid")
    tree = written(found)
    assert "2.9" in tree.text
    assert found.checks == ("attnres sweep show grid",)
    assert all_pictures(found)
    shown = [each.attributes.get("data-picture") for each in tree.all("figure")]
    assert [picture.key for picture in all_pictures(found)] == [key for key in shown if key]


# ------------------------------------------------------------------ structure


def test_landmarks_headings_and_language(tree: Element) -> None:
    assert tree.one("html").attributes["lang"] == "en"
    assert tree.one("title").text == tree.one("h1").text == "attnres-block and attnres-full against prenorm"
    for landmark in ("header", "nav", "main", "footer"):
        tree.one(landmark)
    levels = [int(each.name[1]) for each in tree.all() if re.fullmatch("h[1-6]", each.name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))
    ids = [each.attributes["id"] for each in tree.all() if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    skip = tree.one("a", class_="skip")
    assert skip.attributes["href"] == "#main"
    for link in tree.one("nav").all("a"):
        assert (link.attributes["href"] or "")[1:] in ids


def test_every_picture_has_words_and_numbers(report: Report, tree: Element) -> None:
    pictures = all_pictures(report)
    assert len(pictures) > 10
    for picture in pictures:
        figure = _figure(tree, picture.key)
        plot = figure.one("div", role="img")
        described = {each.attributes.get("id"): each.text for each in figure.all()}
        assert described[plot.attributes["aria-labelledby"]] == picture.title
        assert len(described[plot.attributes["aria-describedby"]]) > 20
        assert any(figure.one("details").all("td"))


def _figure(tree: Element, key: str) -> Element:
    return next(each for each in tree.all("figure") if each.attributes.get("data-picture") == key)


def test_controls_are_form_controls_with_names(report: Report, tree: Element) -> None:
    labels = {each.attributes.get("for") for each in tree.all("label")}
    inside = {id(each) for label in tree.all("label") for each in label.all("input")}
    controls = [*tree.all("input"), *tree.all("select")]
    assert {each.attributes.get("type") for each in controls} >= {"range", "radio", "checkbox"}
    for control in controls:
        assert id(control) in inside or control.attributes.get("id") in labels
    for fieldset in tree.all("fieldset"):
        assert fieldset.one("legend").text


def test_it_needs_nothing_else(report: Report) -> None:
    text = page(report, LIBRARY, command=COMMAND, written=WRITTEN)
    tree = parse(text)
    assert not [each for each in tree.all() if each.attributes.keys() & {"src", "srcset", "action", "data", "poster"}]
    assert not [each for each in tree.all("a") if not (each.attributes["href"] or "").startswith("#")]
    assert not list(tree.all("link"))
    assert "url(" not in text
    assert "@import" not in text


def test_only_its_own_scripts_may_run(tree: Element) -> None:
    policy = tree.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"] or ""
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    allowed = parts["script-src"].split()
    scripts = [each.text for each in tree.all("script") if each.attributes.get("type") is None]
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts]
    assert allowed == [f"'sha256-{digest}'" for digest in digests]


# ------------------------------------------------------------------ names


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    found = comparison_report(comparison_of(hostile_arms(tmp_path), slower=None), title=HOSTILE[0], words=HOSTILE[1])
    tree = written(found)
    assert tree.one("title").text == tree.one("h1").text == HOSTILE[0]
    assert len(list(tree.all("script"))) == 3
    assert not list(tree.all("img"))
    labels = {each.text for each in _figure(tree, "loss").one("ul", class_="legend").all("li")}
    assert set(HOSTILE) <= labels
    commands = tree.one("code", id="commands").text
    assert all(f"attnres train {name}" in commands for name in HOSTILE)
    assert data_of(tree)["pictures"]["loss"]["views"][0]["table"]["head"][1][0] == "prenorm"


@given(st.text(min_size=1))
def test_any_text_is_text(words: str) -> None:
    """Whatever a title, a cell, a heading, a unit, a caption, a note or an attribute says is read back as it was, with
    invisible characters written out."""
    table = Table("t", words, (Column("a", words, words), Column("b", "b")), ({"a": words, "b": Cell(1, note=words)},))
    tree = parse(table_block(table) + notice_block(Notice(words, (words,))))
    shown = visible(words)
    first_row = next(tree.one("tbody").all("tr"))
    assert first_row.one("th").text == shown
    assert [each.text for each in tree.all("h3")] == [shown, shown]
    assert tree.one("ul").one("li").text == f"[1] {shown}"
    assert parse(tag("p", "x", title=words)).one("p").attributes["title"] == shown


@settings(max_examples=50)
@given(st.text(min_size=1), st.text())
def test_any_text_in_a_picture_is_text(label: str, caption: str) -> None:
    series = Series(label, 1, (0.0, 1.0), (2.0, None), (1.0, None), (3.0, None))
    lines = Lines("k", label, Axis(label), Axis(label, label), (series,), label, caption)
    views = Views("k", label, label, (label, caption or "-"), (lines, lines))
    parse(picture_block(views))
    section = Section("a", "A", "", (views,))
    bare = Report("t", "h", (), (), (section,), provenance({}, {}))
    tree = parse(page(bare, LIBRARY, command=caption, written=WRITTEN))
    assert len(list(tree.all("script"))) == 3
    trace = data_of(tree)["pictures"]["k"]["views"][0]["figure"]["data"][-1]
    assert trace["name"] == interactive.shown(label)


# ------------------------------------------------------------------ tables and pictures


def test_a_table_shows_heat_failures_and_absence() -> None:
    columns = (Column("name", "name"), Column("x", "x", "nats", "number", decimals=2))
    rows = (
        {"name": "a", "x": Cell(1.234567, heat=1.0)},
        {"name": "b", "x": Cell(failed=True)},
        {"name": "c", "x": None},
    )
    tree = parse(grid(Table("t", "T", columns, rows), name="T"))
    cells = list(tree.all("td"))
    assert [each.text for each in cells] == ["1.23", "!", "—"]
    assert cells[0].one("data").attributes["value"] == "1.234567"
    assert cells[0].attributes["style"] == "background:#fee838;color:#000000"


def test_the_still_is_the_view_that_is_shown_first() -> None:
    heats = tuple(
        Heat(
            "k", "T", Axis("x"), Axis("y"), ("a", "b"), ("r",), ((value, None),), Axis("v"), 0.0, 9.0, f"Says {value}."
        )
        for value in (1.0, 2.0, 3.0)
    )
    views = Views("k", "T", "training step", ("10", "20", "30"), heats, shown=1)
    tree = parse(picture_block(views))
    assert tree.one("p", class_="takeaway").text == "Says 2.0."
    assert tree.one("input").attributes["value"] == "1"
    assert tree.one("output").text == "20"
    assert [each.text for each in tree.one("tbody").all("td")] == ["2.00", "—"]
    data = picture_data(views)
    assert (data["shown"], [view["name"] for view in data["views"]]) == (1, ["10", "20", "30"])
    assert [view["table"]["rows"][0][1] for view in data["views"]] == ["1.00", "2.00", "3.00"]


@pytest.mark.parametrize(
    ("names", "element", "kind"),
    [(("1", "2"), "input", "range"), (("a", "b"), "input", "radio"), (tuple("abcde"), "select", None)],
)
def test_views_get_the_control_that_fits(names: tuple[str, ...], element: str, kind: str | None) -> None:
    lines = Lines("k", "T", Axis("x"), Axis("y"), (Series("s", 0, (0.0,), (1.0,)),), "words")
    tree = parse(picture_block(Views("k", "T", "by", names, (lines,) * len(names))))
    assert {each.attributes.get("type") for each in tree.all(element)} == {kind}


def test_the_view_that_is_shown_is_named_for_those_without_controls() -> None:
    lines = Lines("k", "T", Axis("x"), Axis("y"), (Series("s", 0, (0.0,), (1.0,)),), "words")
    tree = parse(picture_block(Views("k", "T", "training step", ("10", "20"), (lines,) * 2, shown=1)))
    words = tree.one("p", class_="caption chosen")
    assert words.text == "Training step: 20; the HTML file switches between 2 in a browser with scripts."
    assert words.one("b").text == "20"
    alone = parse(picture_block(Views("k", "T", "training step", ("10",), (lines,))))
    assert not any(each.attributes.get("class") == "caption chosen" for each in alone.all("p"))


@pytest.mark.parametrize(
    ("count", "classes"),
    [
        (MOST_UNSCRIPTED_COLUMNS, "scroll"),
        (MOST_UNSCRIPTED_COLUMNS + 1, "scroll long"),
        (MOST_PRINTED_COLUMNS, "scroll long"),
        (MOST_PRINTED_COLUMNS + 1, "scroll long unprinted"),
    ],
)
def test_a_table_that_paper_may_leave_out_says_so(count: int, classes: str) -> None:
    columns = tuple(Column(f"c{number}", f"column {number}") for number in range(count))
    tree = parse(grid(Table("t", "T", columns, ({each.key: "x" for each in columns},)), name="T"))
    assert tree.one("div").attributes["class"] == classes
    said = [each.text for each in tree.all("p")]
    assert said == (
        []
        if classes == "scroll"
        else [
            f"Not printed: this table of {count} columns is wider than the paper. Its numbers stand in the HTML file "
            "that was printed."
        ]
    )


def test_twenty_long_runs_fit_into_eight_megabytes() -> None:
    """With 3 MB left beside the library that draws: curves of 10,000 points on three axes, intervals included."""
    x = tuple(2048.0 * step for step in range(10_000))
    y = tuple(3.0 + (step * 7919 % 1000) / 1000 for step in range(10_000))
    low, high = (tuple(value + by for value in y) for by in (-0.1, 0.1))
    series = tuple(Series(f"arm {place}", place, x, y, low, high) for place in range(20))
    lines = Lines("loss", "Loss", Axis("tokens"), Axis("loss", "nats"), series, "words")
    views = Views("loss", "Loss", "horizontal axis", ("a", "b", "c"), (lines,) * 3)
    bare = Report("t", "h", (), (), (Section("a", "A", "", (views,)),), provenance({}, {}))
    text = page(bare, LIBRARY, command=COMMAND, written=WRITTEN)
    assert len(text.encode()) < 3e6
    assert "Of the 10,000 points of a curve" in text


def test_owners_name_the_curve_of_every_trace(report: Report) -> None:
    for picture in all_pictures(report):
        for view, data in zip(all_stills(picture), picture_data(picture)["views"], strict=True):
            assert len(data["owners"]) == len(data["figure"]["data"])
            if isinstance(view, Lines):
                assert {owner.partition(" ")[0] for owner in data["owners"]} == {
                    str(each.place) for each in view.series
                }


# ------------------------------------------------------------------ colours


def contrast(first: str, second: str) -> float:
    """WCAG 2's contrast ratio of two colours "#rrggbb"."""

    def luminance(colour: str) -> float:
        parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("place", range(palette.MOST_COLOURS))
def test_every_arm_stands_out_from_its_background(place: int) -> None:
    style = palette.arm_style(place)
    assert contrast(style.light, palette.LIGHT_BACKGROUND) >= 3
    assert contrast(style.dark, palette.DARK_BACKGROUND) >= 3


def test_arms_are_told_apart_without_colour() -> None:
    looks = {(style.marker, style.dash) for style in map(palette.arm_style, range(3 * palette.MOST_COLOURS))}
    assert len(looks) == 3 * palette.MOST_COLOURS
