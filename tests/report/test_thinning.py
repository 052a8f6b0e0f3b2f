"""Thinned curves look like the whole ones: nothing that stands out is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.report.thinning import thinned

VALUES = st.lists(st.none() | st.floats(-1e6, 1e6), max_size=300)


@given(VALUES, st.integers(5, 60))
def test_few_points_the_extremes_and_both_ends_stay(values: list[float | None], most: int) -> None:
    kept = thinned(values, most)
    assert kept == sorted(set(kept))
    assert len(kept) <= max(most, 0) or len(values) <= most
    if len(values) <= most:
        assert kept == list(range(len(values)))
        return
    assert (kept[0], kept[-1]) == (0, len(values) - 1)
    known = [value for value in values if value is not None]
    shown = [values[place] for place in kept if values[place] is not None]
    if known:
        assert (min(shown), max(shown)) == (min(known), max(known))  # type: ignore[type-var]


def test_a_single_spike_survives() -> None:
    values: list[float | None] = [1.0] * 10_000
    values[4321] = 9.0
    values[7654] = -9.0
    assert {4321, 7654} <= set(thinned(values, 600))


def test_a_gap_stays_a_gap() -> None:
    values: list[float | None] = [float(place % 7) for place in range(1000)]
    values[500] = None
    assert 500 in thinned(values, 100)
