"""Every output format, over every file of report/renderers/: nothing is lost, nothing in a name is obeyed."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from attnres_cli.errors import UserError
from attnres_cli.report.document import Block, Chart, Document, Notice, formats, render
from attnres_cli.report.renderers import _quick, _rich
from attnres_cli.report.renderers._layout import UNLIMITED_COLUMNS
from attnres_cli.report.table import Cell, Column, Table

NASTY = "[bold]|<script>alert(1)</script>`*_\x1b[31m"
COLUMNS = (
    Column("run", "run"),
    Column("loss_nats", "loss", "nats", "number", decimals=4),
    Column("memory_bytes", "memory", kind="bytes"),
    Column("status", "status"),
)
TABLE = Table(
    "loss",
    "Loss of [bold]",
    COLUMNS,
    (
        {"run": NASTY, "loss_nats": Cell(1.23456789, note="a note"), "memory_bytes": 5 * 2**20, "status": "finished"},
        {"run": "B", "loss_nats": Cell(failed=True), "memory_bytes": None, "status": True},
    ),
    caption="a caption",
    remarks=("a remark",),
)
OTHER = Table("cost", "Cost", (Column("run", "run"), Column("step_seconds", "step", "ms", "number", scale=1000)),
              ({"run": "A", "step_seconds": 0.05},))  # fmt: skip
DOCUMENT = Document(
    "example",
    (
        TABLE,
        Notice("NO VERDICT", (f"because of {NASTY}",), "warning"),
        Chart("Curve", ("1 ┤A B", "  └──"), "AB"),
        OTHER,
    ),
    {"baseline": "A", "nan": float("nan")},
)


def test_the_formats_that_the_command_line_promises_exist() -> None:
    assert set(formats()) >= {"table", "markdown", "csv", "json"}


@pytest.mark.parametrize("name", formats())
def test_every_format_ends_in_one_newline_and_holds_no_escape_sequence(name: str) -> None:
    text = render(DOCUMENT, name)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "\x1b" not in text


@pytest.mark.parametrize("name", formats())
def test_every_format_shows_every_table_and_tells_absent_from_failed(name: str) -> None:
    text = render(DOCUMENT, name)
    assert "1.23" in text
    assert "B" in text
    if name in ("table", "markdown"):
        assert "—" in text
    if name != "json":
        assert "!" in text


@pytest.mark.parametrize("name", formats())
def test_every_format_can_render_nothing_and_an_empty_table(name: str) -> None:
    render(Document("empty", ()), name)
    render(Document("empty", (Table("t", "title", COLUMNS, ()),)), name)


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(UserError) as caught:
        render(DOCUMENT, "markdow")
    assert caught.value.faults[0].nearest == "markdown"


def test_only_tables_keeps_their_order_and_names_the_nearest() -> None:
    assert list(DOCUMENT.only_tables(["cost", "loss"]).tables) == ["cost", "loss"]
    with pytest.raises(UserError) as caught:
        DOCUMENT.only_tables(["los"])
    assert caught.value.faults[0].nearest == "loss"


# ------------------------------------------------------------------ table


def test_text_in_a_pipe_is_never_cut() -> None:
    long = "x" * 300
    text = render(Document("d", (Table("t", "t", COLUMNS, ({"run": long, "status": long},)),)), "table")
    assert long in text
    assert len([line for line in text.splitlines() if long in line]) == 1


def test_footnote_marks_do_not_move_decimal_points() -> None:
    rows = ({"run": "A", "loss_nats": Cell(1.5, note="why")}, {"run": "B", "loss_nats": 12.25})
    lines = render(Document("d", (Table("t", "t", COLUMNS[:2], rows),)), "table").splitlines()
    points = [line.index(".") for line in lines if ".5" in line or ".25" in line]
    assert len(set(points)) == 1


def test_colour_only_where_it_is_wanted() -> None:
    assert "\x1b[" in render(DOCUMENT, "table", colour=True)
    assert NASTY not in render(DOCUMENT, "table", colour=True)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", render(DOCUMENT, "table", colour=True))
    assert [line.rstrip() for line in plain.splitlines()] == render(DOCUMENT, "table").splitlines()


names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=70)
many_columns = tuple(Column(f"c{index}", f"heading {index}", "unit", "number", decimals=3) for index in range(12))


@settings(max_examples=25)
@given(st.lists(names, min_size=1, max_size=3), st.floats(-1e5, 1e5), st.integers(60, 120))
def test_on_a_terminal_nothing_is_wider_than_it_and_no_number_is_lost(
    runs: list[str], value: float, width: int
) -> None:
    rows = tuple({"run": run, **{column.key: value for column in many_columns}} for run in runs)
    blocks: tuple[Block, ...] = (
        Table("t", "title", (Column("run", "run"), *many_columns), rows),
        Notice("n", tuple(runs)),
    )
    text = render(Document("d", blocks), "table", width_columns=width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert text.count(f"{value:,.3f}".replace("-0.000", "0.000")) == len(many_columns) * len(runs)


def without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


plain_names = st.text(st.characters(codec="latin-1", exclude_categories=("Cs",)), max_size=30)
cells = st.builds(
    Cell,
    value=st.one_of(st.none(), st.floats(-1e5, 1e5)),
    note=st.one_of(st.none(), st.sampled_from(["a note", "another"])),
    failed=st.booleans(),
)


@settings(max_examples=60)
@given(
    st.lists(plain_names, max_size=3),
    st.lists(cells, min_size=2, max_size=2),
    st.sampled_from(["", "title"]),
    st.sampled_from(["", "unit"]),
    st.booleans(),
    st.sampled_from([40, 80, UNLIMITED_COLUMNS]),
)
def test_the_quick_way_of_drawing_and_rich_agree(
    names: list[str], numbers: list[Cell], title: str, unit: str, folds: bool, width: int
) -> None:
    columns = (
        Column("name", "name"), Column("a", "first", unit, "number", decimals=3), Column("b", "second", kind="number")
    )  # fmt: skip
    rows = tuple({"name": name, "a": numbers[0], "b": numbers[1]} for name in names)
    table = Table("t", title, columns, rows, caption="caption" * bool(title), remarks=("remark",), folds=folds)
    document = Document("d", (table, Notice("notice", tuple(names), "result")))
    for colour in (False, True):
        quick = _quick.draw(document, width, colour)
        if quick is not None:
            own = _rich.draw(document, width, colour)
            assert [line.rstrip() for line in without_colour(quick).splitlines()] == [
                line.rstrip() for line in without_colour(own).splitlines()
            ]
            assert ("\x1b[" in quick) == colour
    if width == UNLIMITED_COLUMNS and all(name.strip() and name.isascii() for name in names):
        assert _quick.draw(document, width, False) is not None


@pytest.mark.parametrize("name", ["名前", "e\u0301", "ｆ"])
def test_letters_that_take_no_column_or_two_are_measured_by_rich(name: str) -> None:
    document = Document("d", (Table("t", "t", COLUMNS[:2], ({"run": name, "loss_nats": 1.0},)),))
    assert _quick.draw(document, 80, False) is None
    assert name in render(document, "table", width_columns=80)


# ------------------------------------------------------------------ markdown


def test_markdown_is_one_table_per_table_with_as_many_cells_in_every_row() -> None:
    text = render(DOCUMENT, "markdown")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = [len(re.findall(r"(?<!\\)\|", line)) - 1 for line in rows]
    assert cells == [4] * 4 + [2] * 3


def test_markdown_escapes_what_a_page_would_obey() -> None:
    text = render(DOCUMENT, "markdown")
    assert "<script>" not in text
    assert r"\[bold\]\|&lt;script&gt;alert(1)&lt;/script&gt;\`\*\_\\x1b\[31m" in text


def test_a_number_with_words_stays_as_it_is_in_a_cell_and_makes_no_list_outside_of_one() -> None:
    words = "-0.08 (-0.11 to -0.05)"
    table = Table("t", "T", (Column("here", "here"),), ({"here": words}, {"here": "1.10× to 1.2×"}))
    text = render(Document("example", (table, Notice("N", (words, "1. one")))), "markdown")
    assert f"| {words} |" in text
    assert "| 1.10× to 1.2× |" in text
    assert rf"- \{words}" in text
    assert r"- 1\. one" in text


# ------------------------------------------------------------------ csv


def test_csv_of_one_table_is_pure_and_complete() -> None:
    text = render(DOCUMENT.only_tables(["loss"]), "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[0]["loss_nats"] == "1.23456789"
    assert rows[0]["memory_bytes"] == str(5 * 2**20)
    assert (rows[1]["loss_nats"], rows[1]["memory_bytes"], rows[1]["status"]) == ("!", "", "true")


def test_csv_of_several_tables_names_each() -> None:
    parts = render(DOCUMENT, "csv").split("\n\n")
    assert [part.splitlines()[0] for part in parts] == ["# loss", "# cost"]


# ------------------------------------------------------------------ json


def test_json_is_strict_and_carries_names_untouched() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    document = json.loads(render(DOCUMENT, "json"), parse_constant=refuse)
    assert document["schema"] == "attnres.example/1"
    assert document["nan"] is None
    rows = document["tables"]["loss"]["rows"]
    assert rows[0]["run"] == NASTY
    assert rows[0]["loss_nats"] == 1.23456789
    assert rows[1]["failed"] == ["loss_nats"]
