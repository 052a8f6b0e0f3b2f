from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.data.store import JoinedArrays


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6), st.integers(-30, 30), st.integers(-30, 30))
def test_slices_are_those_of_the_concatenation(lengths: list[int], start: int, stop: int) -> None:
    whole = np.arange(sum(lengths), dtype=np.uint16)
    joined = JoinedArrays(np.split(whole, np.cumsum(lengths)[:-1]))
    assert len(joined) == len(whole)
    window = joined[start:stop]
    assert window.dtype == np.uint16
    assert np.array_equal(window, whole[start:stop])


def test_inside_one_array_nothing_is_copied() -> None:
    parts = [np.arange(5, dtype=np.uint16), np.arange(9, dtype=np.uint16)]
    assert np.shares_memory(JoinedArrays(parts)[6:9], parts[1])
