"""A curve in one line."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.report.sparkline import BARS, sparkline


@pytest.mark.parametrize(
    ("values", "width", "line"),
    [
        ([], 5, ""),
        ([1.0], 5, "▁"),
        ([1, 2, 3, 4, 5, 6, 7, 8], 8, BARS),
        ([8, 1], 8, "█▁"),
        ([2.0, 2.0, 2.0], 8, "▁▁▁"),
        ([1.0, None, 3.0], 8, "▁ █"),
        ([1.0, math.nan, math.inf, 3.0], 8, "▁  █"),
        ([None, None], 8, "  "),
        ([1, 1, 3, 3], 2, "▁█"),
        ([1, None, 3, None], 2, "▁█"),
    ],
)
def test_examples(values: list[float | None], width: int, line: str) -> None:
    assert sparkline(values, width) == line


@given(st.lists(st.none() | st.floats(-1e6, 1e6), max_size=60), st.integers(1, 30))
def test_the_line_is_as_long_as_its_values_or_the_width(values: list[float | None], width: int) -> None:
    line = sparkline(values, width)
    assert len(line) == min(len(values), width)
    assert set(line) <= set(BARS) | {" "}


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=20))
def test_a_falling_curve_never_rises(values: list[float]) -> None:
    levels = [BARS.index(bar) for bar in sparkline(sorted(values, reverse=True), 20)]
    assert levels == sorted(levels, reverse=True)
