"""Eq. 7-8 and the paper's Figure 3 (P = 4, V = 2, one block per two ranks), transition by transition."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.analysis.pipeline import chunk_boundaries, communication, transitions


def test_equations_at_the_example_of_figure_3() -> None:
    cost = communication(physical_stages=4, virtual_stages=2, representations_per_chunk=1)
    assert (cost.naive, cost.cached) == (28, 22)
    assert (cost.naive_peak, cost.cached_peak) == (7, 4)


def test_walk_of_figure_3() -> None:
    # Eight chunks, four blocks: behind chunk c stand the embedding and (c + 1) // 2 finished blocks.
    walk = transitions(4, [1 + (chunk + 1) // 2 for chunk in range(7)])
    assert [step.naive for step in walk] == [1, 2, 2, 3, 3, 4, 4]
    assert [step.cached for step in walk] == [1, 2, 2, 2, 2, 2, 2]
    assert sum(step.naive for step in walk) - sum(step.cached for step in walk) == 6


@given(st.integers(1, 12), st.integers(1, 6), st.fractions(0, 4))
def test_equations_equal_their_sums(stages: int, virtual: int, share: Fraction) -> None:
    cost = communication(stages, virtual, share)
    chunks = stages * virtual
    assert cost.naive == sum(j * share for j in range(1, chunks))
    # First round: everything so far; afterwards what the P chunks since the last visit have finished.
    assert cost.cached == sum(min(j, stages) * share if j >= stages else j * share for j in range(1, chunks))


@given(st.integers(1, 6), st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_a_device_ends_with_every_representation_it_was_sent(stages: int, finished_by_chunk: list[int]) -> None:
    sources = [1 + sum(finished_by_chunk[: chunk + 1]) for chunk in range(len(finished_by_chunk))]
    held = {0: 1}
    for step in transitions(stages, sources):
        device = (step.chunk + 1) % stages
        held[device] = held.get(device, 0) + step.cached
        assert held[device] == step.naive


def test_chunks_hold_whole_transformer_blocks() -> None:
    assert chunk_boundaries(transformer_blocks=12, chunks=4) == (6, 12, 18)
    assert chunk_boundaries(transformer_blocks=5, chunks=3) == (2, 6)


def test_a_plain_residual_has_nothing_to_send() -> None:
    assert communication(4, 2, 0).naive == 0
    with pytest.raises(AssertionError):
        transitions(2, [2, 1])
