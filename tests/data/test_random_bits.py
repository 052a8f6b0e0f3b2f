"""The generator's numbers must never change: runs of different years would see different data."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.data.random_bits import random_below, random_permutation, random_uint64

MASK = 2**64 - 1


def splitmix64(seed: int, count: int) -> list[int]:
    """The published algorithm, one number after another, in whole numbers of any size."""
    numbers = []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        bits = seed
        bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
        numbers.append(bits ^ (bits >> 31))
    return numbers


def test_published_values() -> None:
    """The first outputs for seed 1234567, as other implementations print them."""
    assert random_uint64((1234567,), 5).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@given(st.integers(0, MASK), st.integers(0, 40), st.integers(0, 40))
def test_any_part_equals_the_sequence(seed: int, first: int, count: int) -> None:
    assert random_uint64((seed,), count, first=first).tolist() == splitmix64(seed, first + count)[first:]


def test_streams_differ() -> None:
    """Not even shifted: no number occurs in two of them."""
    streams = [(0,), (1,), (0, 0), (0, 1), (0, 2), (1, 0), (0, 0, 0), (0, 0, 1), (0, 1, 1), (2**64 - 1, 1)]
    drawn = np.concatenate([random_uint64(stream, 100) for stream in streams])
    assert len(set(drawn.tolist())) == 100 * len(streams)


def test_golden_values_of_named_streams() -> None:
    assert random_uint64((0, 1, 2), 2).tolist() == GOLDEN_STREAM
    assert random_permutation((3, 5), 10).tolist() == GOLDEN_PERMUTATION
    assert random_below(10, (7, 8), 12).tolist() == GOLDEN_BELOW


GOLDEN_STREAM = [4055602318683042889, 2303571127521802006]
GOLDEN_PERMUTATION = [9, 1, 0, 4, 7, 8, 2, 5, 6, 3]
GOLDEN_BELOW = [3, 5, 7, 2, 1, 4, 5, 0, 1, 9, 7, 4]


@given(st.integers(0, MASK), st.integers(1, 300))
def test_permutation_holds_every_number_once(seed: int, count: int) -> None:
    assert sorted(random_permutation((seed,), count).tolist()) == list(range(count))


def test_permutations_are_not_biased() -> None:
    """Each of the 24 orders of four things as often as chance has it: a chi-squared of 23 degrees stays below 60."""
    orders = [tuple(random_permutation((seed,), 4).tolist()) for seed in range(4800)]
    counts = np.array([orders.count(order) for order in set(orders)])
    assert len(counts) == 24
    assert float(((counts - 200) ** 2 / 200).sum()) < 60


def test_below_stays_below_and_reaches_everything() -> None:
    drawn = random_below(7, (11,), 7000)
    assert drawn.dtype == np.int64
    assert sorted(set(drawn.tolist())) == list(range(7))
    assert np.bincount(drawn).min() > 800
