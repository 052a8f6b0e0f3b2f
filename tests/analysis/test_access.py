"""The paper's Table 1: its typical row to the digit, and the naive counts against a walk over the sources."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.analysis.access import access_table, block_naive, full, full_naive, hyper_connections


def test_typical_row_of_the_paper() -> None:
    # L = 128, N = 8, S = 16, m = 4: 3d, 34d (and 48 scalars), 24d, 5.5d.
    rows = {row.name: row.total for row in access_table(num_sublayers=128, num_blocks=8, num_streams=4)}
    assert rows["standard"].per_channel == 3
    assert rows["mHC, 4 streams"].per_channel == 34
    assert rows["mHC, 4 streams"].scalars == 48
    assert rows["AttnRes full"].per_channel == 24
    assert rows["AttnRes block"].per_channel == Fraction(11, 2)
    assert rows["AttnRes full, naive"].per_channel == 130


def test_reads_and_writes_are_those_of_the_paper() -> None:
    # Appendix B: full reads (S + N - 2)d and writes 2d.
    row = full(num_sublayers=128, num_blocks=8)
    assert (row.read.per_channel, row.write.per_channel) == (22, 2)
    streams = hyper_connections(4)
    assert streams.read.per_channel + streams.write.per_channel == 8 * 4 + 2
    assert [operation.write.scalars for operation in streams.operations] == [24, 0, 0, 0, 0]


def test_elements_at_a_width() -> None:
    assert hyper_connections(4).total.elements(100) == 3448


@pytest.mark.parametrize(("num_sublayers", "num_blocks"), [(12, 3), (12, 12), (8, 1), (30, 5)])
def test_naive_counts_equal_a_walk_over_the_sources(num_sublayers: int, num_blocks: int) -> None:
    size = num_sublayers // num_blocks
    block_accesses, full_accesses = 0, 0
    for ordinal in range(num_sublayers):
        first = ordinal % size == 0
        sources = ordinal // size + 1 + (0 if first else 1)  # finished blocks with the embedding, and the running sum
        block_accesses += 2 * sources + 1 + (0 if first else 3)  # keys and values, the mix, read-read-write of the sum
        full_accesses += 2 * (ordinal + 1) + 1
    assert block_naive(num_sublayers, num_blocks).total.per_channel == Fraction(block_accesses, num_sublayers)
    assert full_naive(num_sublayers).total.per_channel == Fraction(full_accesses, num_sublayers)


@given(st.integers(1, 200).flatmap(lambda layers: st.tuples(st.just(layers), st.integers(1, layers))))
def test_one_sublayer_per_block_is_full_and_phases_never_cost_more(shape: tuple[int, int]) -> None:
    num_sublayers, num_blocks = shape
    assert block_naive(num_sublayers, num_sublayers).total == full_naive(num_sublayers).total
    assert full(num_sublayers, num_blocks).total.per_channel <= full_naive(num_sublayers).total.per_channel
