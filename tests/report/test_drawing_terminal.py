"""Pictures in characters: what they show, and that nothing is ever wider than the terminal."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnres_cli.report.document import Chart, Document, render
from attnres_cli.report.drawing._terminal_words import columns_of
from attnres_cli.report.drawing.terminal import chart
from attnres_cli.report.picture import Axis, Heat, Lines, Series
from tests.golden_files import check_golden

TOKENS, LOSS = Axis("training tokens"), Axis("validation loss", "nats per token")


def curve(label: str, place: int, *, floor: float = 1.5, spread: float | None = None) -> Series:
    x = tuple(1000.0 * step for step in range(0, 201, 5))
    y = tuple(floor + 4 * math.exp(-each / 30_000) for each in x)
    if spread is None:
        return Series(label, place, x, y)
    return Series(label, place, x, y, tuple(each - spread for each in y), tuple(each + spread for each in y))


def losses(*series: Series, **changes: object) -> Lines:
    picture = Lines("loss", "Validation loss", TOKENS, LOSS, series, "It falls.", "Mean over 3 runs, 95 % interval.")
    return replace(picture, **changes)  # type: ignore[arg-type]


def weights(rows: int, columns: int, **changes: object) -> Heat:
    values = tuple(
        tuple((1 + column) / (1 + row) / 2 if column <= row else None for column in range(columns))
        for row in range(rows)
    )
    picture = Heat(
        "depth-weights", "Depth weights", Axis("source"), Axis("sublayer"),
        tuple(f"source {column}" for column in range(columns)), tuple(f"sublayer {row}" for row in range(rows)),
        values, Axis("mean weight"), 0.0, 1.0, "A triangle.", "Mean over tokens.",
    )  # fmt: skip
    return replace(picture, **changes)  # type: ignore[arg-type]


def importance(*names: str) -> Lines:
    x = tuple(float(index) for index in range(len(names)))
    y = tuple(0.4 / (1 + each) for each in x)
    series = Series(
        "B block", 1, x, y, tuple(each - 0.05 for each in y), tuple(each + 0.05 for each in y), joined=False
    )
    axis = Axis("source", names=names)
    return Lines("importance", "Importance", axis, Axis("Δ loss", "nats"), (series,), "It falls.", zero=True)


def plot(drawn: Chart) -> list[str]:
    """The rows of the plot, right of the axis, from the top."""
    return [re.split("[┤│]", line, maxsplit=1)[1] for line in drawn.lines if re.search("[┤│]", line)]


def text(drawn: Chart) -> str:
    return "\n".join((drawn.title, *drawn.lines)) + "\n"


# ---------------------------------------------------------------------- golden


def test_curves_with_intervals_at_eighty_columns() -> None:
    picture = losses(curve("prenorm", 0, spread=0.1), curve("attnres-block", 1, floor=1.2), y_range=(1.0, 3.0))
    check_golden("drawing-curves.txt", text(chart(picture, 80)))


def test_a_grid_in_numbers_in_digits_and_thinned() -> None:
    shown = [chart(weights(6, 6), 80), chart(weights(24, 24), 80), chart(weights(97, 97), 80)]
    check_golden("drawing-grids.txt", "\n".join(map(text, shown)))


def test_points_that_have_names() -> None:
    check_golden("drawing-points.txt", text(chart(importance("embedding", "block 1", "block 2"), 80)))


# ---------------------------------------------------------------------- curves


def test_every_curve_has_the_letter_of_its_arm() -> None:
    drawn = chart(losses(curve("prenorm", 0, floor=1.0), curve("attnres-full", 2, floor=2.0)), 80)
    assert drawn.markers == "AC"
    assert {"A", "C"} <= set("".join(plot(drawn)))
    assert any("A prenorm   C attnres-full" in line for line in drawn.lines)


def test_single_runs_keep_the_letters_they_are_called_by() -> None:
    """The baseline of a comparison may be the run B."""
    drawn = chart(losses(curve("B prenorm", 0, floor=1.0), curve("A attnres-full", 1, floor=2.0)), 80)
    assert drawn.markers == "BA"
    assert any("B prenorm   A attnres-full" in line for line in drawn.lines)


def test_the_lower_curve_is_drawn_lower_on_either_scale() -> None:
    for axis in (LOSS, replace(LOSS, logarithmic=True)):
        rows = plot(chart(losses(curve("a", 0, floor=1.0), curve("b", 1, floor=2.0), y=axis), 80))
        at = {row[-1]: index for index, row in enumerate(rows) if row.rstrip() and len(row) == max(map(len, rows))}
        assert at["A"] > at["B"]


def test_a_curve_does_not_run_across_a_gap() -> None:
    series = Series("a", 0, (0.0, 1.0, 2.0, 3.0), (1.0, None, 2.0, 2.0))
    top = plot(chart(losses(series), 80))[0]
    assert set(top[: len(top) // 2]) == {" "}
    assert top.count("A") > 20


def test_what_lies_outside_is_said() -> None:
    drawn = chart(losses(curve("a", 0), y_range=(2.0, 3.0)), 80)
    assert any(re.fullmatch(r"above 3\.0+: not drawn", line) for line in drawn.lines)
    assert any(re.fullmatch(r"below 2\.0+: not drawn", line) for line in drawn.lines)
    assert not any("not drawn" in line for line in chart(losses(curve("a", 0)), 80).lines)


def test_zero_is_a_line_where_it_means_something() -> None:
    picture = losses(Series("a", 1, (0.0, 1.0), (0.5, 0.2)), zero=True)
    assert "────" in plot(chart(picture, 80))[-1]
    assert "────" not in "".join(plot(chart(replace(picture, zero=False), 80)))


def test_no_number_at_all_is_said() -> None:
    nothing = Series("a", 0, (0.0, 1.0), (None, None))
    names = Axis("x", names=("p", "q"))
    for picture in (losses(nothing), losses(), losses(replace(nothing, joined=False), x=names)):
        assert chart(picture, 80).lines == ("nothing to draw: no number was recorded",)
    assert chart(weights(2, 2, values=((None, None), (None, None))), 80).lines[0].startswith("nothing to draw")


def test_more_arms_than_letters_are_counted() -> None:
    drawn = chart(losses(*(curve(f"arm {place}", place) for place in range(30))), 80)
    assert any("4 more are not drawn" in line for line in drawn.lines)


# ---------------------------------------------------------------------- grids


def test_a_grid_in_a_pipe_has_every_number() -> None:
    drawn = chart(weights(97, 97), None)
    assert len([line for line in drawn.lines if line.startswith("sublayer ")]) == 97
    assert drawn.lines[97].split()[-1] == "0.50"
    assert len(drawn.lines[97].split()) == 2 + 97


def test_digits_are_tenths_of_the_scale() -> None:
    values = tuple(tuple(0.1 * column + 0.05 for column in range(10)) for _ in range(2))
    drawn = chart(replace(weights(2, 10), values=values, rows=("a", "b")), 40)
    assert drawn.lines[1].split() == ["a", *map(str, range(10))]
    assert any(line.startswith("0: 0.00 to 0.10 … 9: 0.90 to 1.00") for line in drawn.lines)


def test_what_is_left_out_is_said_and_which_column_is_which() -> None:
    lines = " ".join(chart(weights(97, 97), 60).lines)
    assert "shown: every 3rd of 97 rows and every 3rd of 97 columns" in lines
    assert "columns: 0 source 0, 3 source 3," in lines
    assert "… 96 source 96" in lines


def test_marked_cells_stand_out_in_numbers_and_are_named_beside_digits() -> None:
    drawn = chart(weights(3, 3, marked=frozenset({(2, 1)})), 80)
    assert "0.33*" in drawn.lines[3]
    assert any("* marked" in line for line in drawn.lines)
    many = " ".join(chart(weights(40, 40, marked=frozenset({(2, 1)})), 80).lines)
    assert "marked: sublayer 2 / source 1" in many


def test_the_colours_belong_to_the_numbers() -> None:
    picture = weights(4, 3)
    drawn = chart(picture, 80, colour=True)
    cells = [each for each in drawn.heats if each.line <= 4]
    assert len(cells) == sum(value is not None for row in picture.values for value in row)
    for each in cells:
        assert float(drawn.lines[each.line][each.start : each.end]) == pytest.approx(each.heat, abs=0.0051)
    bar = [each.heat for each in drawn.heats if each.line == 5]
    assert (bar[0], bar[-1]) == (0.0, 1.0)
    assert bar == sorted(bar)


def test_colours_reach_a_terminal_and_no_pipe() -> None:
    document = Document("x", (chart(weights(4, 3), 80, colour=True), chart(losses(curve("a", 0)), 80, colour=True)))
    plain = render(document, "table")
    assert "\x1b" not in plain
    coloured = render(document, "table", width_columns=80, colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    dark_blue, yellow = ("48;5;17m" in coloured, "48;5;22" in coloured)
    assert dark_blue
    assert yellow


def test_a_name_cannot_end_the_code_block_of_a_page() -> None:
    page = render(Document("x", (chart(importance("```", "b"), 80),)), "markdown")
    assert page.count("````") == 2


# ---------------------------------------------------------------------- whatever comes

NUMBERS = st.one_of(st.none(), st.floats(-1e9, 1e9), st.sampled_from([0.0, 1.0, 1e-12, 5e8]))
POSITIVE = st.floats(1e-9, 1e9)
NAMES = st.one_of(st.text(max_size=60), st.sampled_from(["[bold]", "<script>", "$x_1$", "日本語" * 9, "\x1b[2J"]))


@st.composite
def any_lines(draw: st.DrawFn) -> Lines:
    logarithmic, has_names = draw(st.booleans()), draw(st.booleans())
    names = tuple(draw(st.lists(NAMES, min_size=1, max_size=5))) if has_names else ()
    series = []
    for place in range(draw(st.integers(0, 3))):
        size = draw(st.integers(0, len(names) or 6))
        x = [float(index) for index in range(size)]
        if not names:
            x = sorted(draw(st.lists(st.floats(0.001, 1e9), min_size=size, max_size=size, unique=True)))
        y = draw(st.lists(POSITIVE if logarithmic else NUMBERS, min_size=size, max_size=size))
        low = tuple(None if each is None else min(each, each * 0.9) for each in y) if draw(st.booleans()) else None
        high = None if low is None else tuple(None if each is None else max(each, each * 1.1) for each in y)
        series.append(
            Series(draw(NAMES), place, tuple(x), tuple(y), low, high, dashed=draw(st.booleans()),
                   joined=draw(st.booleans()))
        )  # fmt: skip
    y_range = draw(st.one_of(st.none(), st.just((0.5, 20.0))))
    return Lines(
        "key", draw(NAMES), Axis("x", logarithmic=draw(st.booleans()) and not names, names=names),
        Axis("y", draw(NAMES), logarithmic=logarithmic), tuple(series), "Words.", draw(NAMES), y_range,
        zero=draw(st.booleans()) and not logarithmic,
    )  # fmt: skip


@st.composite
def any_heat(draw: st.DrawFn) -> Heat:
    rows, columns = draw(st.integers(1, 60)), draw(st.integers(1, 120))
    value = draw(st.one_of(st.none(), st.floats(-1e6, 1e6)))
    every = draw(st.integers(1, 7))
    values = tuple(tuple(None if (row + column) % every else value for column in range(columns)) for row in range(rows))
    low = draw(st.floats(-1e6, 1e6))
    name = draw(NAMES)
    return Heat(
        "key", name, Axis("x"), Axis("y"), tuple(f"{column} {name}" for column in range(columns)),
        tuple(f"{name} {row}" for row in range(rows)), values, Axis("z", name), low,
        low + draw(st.sampled_from([0.0, 1e-9, 1.0, 1e6])), "Words.", name, draw(st.booleans()),
        frozenset({(rows - 1, columns - 1)}) if draw(st.booleans()) else frozenset(),
    )  # fmt: skip


@settings(max_examples=150)
@given(st.one_of(any_lines(), any_heat()), st.integers(40, 140), st.booleans())
def test_nothing_is_wider_than_the_terminal(picture: Lines | Heat, width: int, colour: bool) -> None:
    drawn = chart(picture, width, colour=colour)
    assert drawn.lines
    assert max(map(columns_of, drawn.lines)) <= width
    assert all(line.isprintable() for line in drawn.lines)
    for each in drawn.heats:
        assert 0 <= each.heat <= 1
        assert 0 <= each.start < each.end <= len(drawn.lines[each.line])
    if isinstance(picture, Lines):
        assert chart(picture, None) == chart(picture, 76)
