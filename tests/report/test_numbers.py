"""One unit and one number of decimals per column."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.report.numbers import NumberFormat, byte_unit, duration, format_for, short_count, short_duration


@pytest.mark.parametrize(
    ("values", "digits", "shown"),
    [
        ([1.23456, 2.5], 3, ["1.23", "2.50"]),
        ([123.456, 2.5], 3, ["123.5", "2.5"]),
        ([123.456, 0.025], 3, ["123.456", "0.025"]),
        ([0.012345], 3, ["0.0123"]),
        ([1234567.0, 12.0], 3, ["1,234,567", "12"]),
        ([1e-9, 1.0], 3, ["1.00e-09", "1.00e+00"]),
        ([0.0, 0.0], 3, ["0.00", "0.00"]),
        ([], 3, []),
    ],
)
def test_decimals_follow_the_largest_and_the_smallest_value(values: list[float], digits: int, shown: list[str]) -> None:
    show = format_for(values, digits=digits)
    assert [show(value) for value in values] == shown


sizes = st.floats(min_value=1e-12, max_value=1e12)


@given(st.lists(sizes | sizes.map(lambda size: -size), min_size=1, max_size=8))
def test_a_column_has_one_form_and_two_digits_of_its_smallest_number_survive(values: list[float]) -> None:
    show = format_for(values)
    texts = [show(value) for value in values]
    if show.decimals is None:
        assert all("e" in text for text in texts)
    else:
        assert {len(text.partition(".")[2]) for text in texts} == {show.decimals}
    for value, text in zip(values, texts, strict=True):
        assert math.isclose(float(text.replace(",", "")), value, rel_tol=0.051)


def test_signs_are_shown_where_they_mean_a_direction_and_never_on_a_rounded_zero() -> None:
    show = NumberFormat(4, signed=True)
    assert [show(value) for value in (0.05, -0.05, 0.0, -0.00001, 0.00001)] == [
        "+0.0500", "-0.0500", "+0.0000", "+0.0000", "+0.0000",
    ]  # fmt: skip
    assert NumberFormat(2)(-0.001) == "0.00"


@pytest.mark.parametrize(
    ("values", "unit"),
    [([], ("", 1)), ([0], ("B", 1)), ([1023, 5], ("B", 1)), ([1024], ("KiB", 1024)), ([3 * 2**30, 5], ("GiB", 2**30))],
)
def test_the_byte_unit_is_the_largest_that_fits_the_largest_value(values: list[float], unit: tuple[str, int]) -> None:
    assert byte_unit(values) == unit


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (999, "999"), (1000, "1k"), (204800, "205k"), (1.5e6, "1.5M"), (3.87e10, "38.7G")]
)
def test_short_counts(count: float, text: str) -> None:
    assert short_count(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (99.4, "99s"),
        (99.9, "2m"),
        (100, "2m"),
        (6000, "2h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (4e8, "13y"),
    ],
)
def test_durations_in_columns_are_rounded_and_have_at_most_four_characters(seconds: float, text: str) -> None:
    assert short_duration(seconds) == text
    assert len(text) <= 4


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (math.nan, "–"), (0, "0s"), (0.00042, "0.42ms"), (0.114, "0.11s"), (1.84, "1.8s"), (2.0, "2s"), (9.96, "10s"),
        (44.4, "44s"), (59.7, "1m"), (62, "1m 02s"), (228, "3m 48s"), (3599.7, "1h"), (3900, "1h 05m"),
        (1460, "24m 20s"), (47.5 * 3600, "47h 30m"), (51 * 3600, "2d 03h"), (2.92e6, "33d 19h"),
    ],
)  # fmt: skip
def test_durations_are_rounded_and_have_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@given(st.floats(1e-5, 1e9))
def test_a_duration_means_the_time_that_it_was_made_of(seconds: float) -> None:
    sizes = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
    parts = re.findall(r"([0-9.]+)([a-z]+)", duration(seconds))
    assert math.isclose(
        sum(float(number) * sizes[unit] for number, unit in parts), seconds, rel_tol=0.051, abs_tol=1e-6
    )
