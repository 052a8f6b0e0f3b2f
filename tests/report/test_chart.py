"""The loss chart: several curves told apart by letters, in at most 80 columns."""

from __future__ import annotations

import math
import re

from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.report.chart import SEVERAL, Curve, line_chart
from tests.golden_files import check_golden


def falling(marker: str, floor: float, every: int = 1) -> Curve:
    points = tuple((1000.0 * step, floor + 4 * math.exp(-step / 30)) for step in range(0, 201, every))
    return Curve(marker, f"{marker} scheme", points)


def plot(lines: tuple[str, ...]) -> list[str]:
    """The rows of the plot, right of the axis, from the top."""
    return [re.split("[┤│]", line, maxsplit=1)[1] for line in lines if re.search("[┤│]", line)]


def test_three_curves() -> None:
    check_golden(
        "chart.txt", "\n".join(line_chart([falling("A", 1.5), falling("B", 1.4, 20), falling("C", 2.0)])) + "\n"
    )


def test_each_curve_has_its_letter_in_plot_and_legend() -> None:
    lines = line_chart([falling("A", 1.0), falling("B", 2.0)])
    drawn = "".join(plot(lines))
    assert {"A", "B"} <= set(drawn)
    assert any("A scheme   B scheme" in line for line in lines)


def test_the_lower_curve_is_drawn_lower() -> None:
    rows = plot(line_chart([falling("A", 1.0), falling("B", 2.0)]))
    last = {row[-1]: index for index, row in enumerate(rows) if len(row) == max(map(len, rows))}
    assert last["A"] > last["B"]


def test_cells_that_curves_share_say_so() -> None:
    lines = line_chart([falling("A", 1.0), falling("B", 1.0)])
    assert set("".join(plot(lines))) == {" ", SEVERAL}
    assert any(f"{SEVERAL} several" in line for line in lines)


def test_the_axes_carry_the_values_of_the_corners() -> None:
    lines = line_chart([Curve("A", "A", ((0.0, 2.0), (100_000.0, 3.0), (200_000.0, 1.0)))])
    assert any(line.lstrip().startswith("3.00 ┤") for line in lines)
    assert any(line.lstrip().startswith("1.00 ┤") for line in lines)
    assert any(line.rstrip().endswith("200k tokens") and line.lstrip().startswith("0 ") for line in lines)


def test_a_steep_start_is_cut_and_named() -> None:
    lines = line_chart([falling("A", 1.5)])
    assert re.fullmatch(r" +above 2\.\d+: not drawn", lines[-1])


def test_a_sparse_curve_is_joined_by_straight_lines() -> None:
    rows = plot(line_chart([Curve("A", "A", ((0.0, 2.0), (1000.0, 1.0)))], width_columns=60))
    width = max(map(len, rows))
    columns = range(width // 3, width)
    drawn = [next(index for index, row in enumerate(rows) if row.ljust(width)[column] == "A") for column in columns]
    assert drawn == sorted(drawn)
    assert len(set(drawn)) > 10


def test_a_single_point_and_a_flat_curve_can_be_drawn() -> None:
    assert "A" in "".join(plot(line_chart([Curve("A", "A", ((1000.0, 2.0),))])))
    assert "A" in "".join(plot(line_chart([Curve("A", "A", ((0.0, 0.0), (1.0, 0.0)))])))


def test_nothing_to_draw_is_said() -> None:
    assert line_chart([]) == ("nothing to draw: no finite loss was recorded",)
    assert line_chart([Curve("A", "A", ())]) == line_chart([])


def test_a_curve_without_points_is_left_out_of_the_legend() -> None:
    assert not any("B scheme" in line for line in line_chart([falling("A", 1.0), Curve("B", "B scheme", ())]))


points = st.lists(st.tuples(st.integers(0, 10**12), st.floats(-1e3, 1e5)), min_size=1, max_size=30)


@given(st.lists(points, min_size=1, max_size=9), st.integers(40, 120))
def test_any_curves_fit_the_width(curves: list[list[tuple[int, float]]], width: int) -> None:
    drawn = [
        Curve(chr(ord("A") + index), f"{chr(ord('A') + index)} scheme", tuple(sorted((float(x), y) for x, y in curve)))
        for index, curve in enumerate(curves)
    ]
    lines = line_chart(drawn, width_columns=width)
    assert max(map(len, lines)) <= width
    # Every curve is somewhere on the chart: in its own letter, hidden under others, or above the scale and named.
    cells = "".join(plot(lines))
    for curve in drawn:
        assert curve.marker in cells or SEVERAL in cells or "not drawn" in lines[-1]
