"""The order of windows: every epoch a permutation, a pure function of seed and step, the same for ever."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.data.batches import IGNORED_TARGET, Batches, validation_batches, validation_set_hash
from attnres_cli.data.store import JoinedArrays, TokenStore
from attnres_cli.errors import UserError


def counting_store(num_tokens: int, *, loss_mask: np.ndarray | None = None) -> TokenStore:
    """Token i is i, so that a window says where it came from."""
    tokens = np.arange(num_tokens, dtype=np.uint16)
    return TokenStore(tokens, loss_mask, num_tokens, np.ones(num_tokens, dtype=np.uint16))


def batches(num_tokens: int, *, context: int = 4, sequences: int = 3, seed: int = 0) -> Batches:
    return Batches(counting_store(num_tokens), context_tokens=context, sequences_per_step=sequences, seed=seed)


@given(
    windows=st.integers(1, 60),
    context=st.integers(1, 5),
    spare=st.integers(1, 5),
    sequences=st.integers(1, 13),
    seed=st.integers(0, 2**32),
)
def test_every_epoch_sees_every_window_once(windows: int, context: int, spare: int, sequences: int, seed: int) -> None:
    # One token more than the windows is the last target; up to a whole window less one is left over.
    own = batches(windows * context + 1 + (spare - 1) % context, context=context, sequences=sequences, seed=seed)
    assert own.windows == windows
    epochs = 3
    steps = -(-epochs * windows // sequences)
    seen = np.concatenate([own.window_numbers(step) for step in range(steps)])[: epochs * windows]
    for epoch in seen.reshape(epochs, windows):
        assert sorted(epoch.tolist()) == list(range(windows))


@given(step=st.integers(0, 10**9), seed=st.integers(0, 2**63))
def test_a_step_depends_on_seed_and_step_alone(step: int, seed: int) -> None:
    fresh = batches(101, seed=seed)
    used = batches(101, seed=seed)
    used.step(step + 17)
    used.step(max(step - 5, 0))
    for one, other in zip(fresh.step(step), used.step(step), strict=True):
        assert np.array_equal(one, other)


def test_windows_do_not_overlap_and_targets_are_the_next_tokens() -> None:
    own = batches(41, context=8, sequences=5)
    inputs, targets = own.step(0)
    assert inputs.dtype == targets.dtype == np.int64
    assert inputs.shape == targets.shape == (5, 8)
    assert np.array_equal(targets, inputs + 1)
    assert sorted(inputs.ravel().tolist()) == list(range(40))


def test_a_step_may_end_one_epoch_and_begin_the_next() -> None:
    own = batches(21, context=4, sequences=3)  # 5 windows
    first_epoch = [*own.window_numbers(0), *own.window_numbers(1)[:2]]
    assert sorted(first_epoch) == [0, 1, 2, 3, 4]
    assert own.epoch_of(0) == 0
    assert own.epoch_of(5) == 3.0


def test_a_step_may_be_larger_than_the_corpus() -> None:
    own = batches(9, context=4, sequences=7)  # 2 windows
    assert np.bincount(own.window_numbers(0)).tolist() in ([3, 4], [4, 3])


def test_seeds_and_epochs_have_orders_of_their_own() -> None:
    orders = {
        tuple(batches(401, sequences=100, seed=seed).window_numbers(epoch)) for seed in range(5) for epoch in range(5)
    }
    assert len(orders) == 25


def test_golden_order() -> None:
    """Fixed for ever: a change here would give every old run's seed another meaning."""
    own = batches(49, context=4, sequences=12, seed=1)
    assert own.window_numbers(0).tolist() == GOLDEN_FIRST_EPOCH
    assert own.window_numbers(1).tolist() == GOLDEN_SECOND_EPOCH


GOLDEN_FIRST_EPOCH = [7, 9, 3, 11, 5, 8, 10, 0, 1, 4, 6, 2]
GOLDEN_SECOND_EPOCH = [5, 10, 1, 0, 3, 4, 2, 11, 8, 7, 6, 9]


def test_masked_tokens_are_ignored_targets() -> None:
    loss_mask = np.zeros(9, dtype=np.bool_)
    loss_mask[[3, 8]] = True
    own = Batches(counting_store(9, loss_mask=loss_mask), context_tokens=4, sequences_per_step=2, seed=0)
    inputs, targets = own.step(0)
    order = np.argsort(inputs[:, 0])
    assert targets[order].tolist() == [[IGNORED_TARGET, IGNORED_TARGET, 3, IGNORED_TARGET], [IGNORED_TARGET] * 3 + [8]]


def test_joined_files_give_the_batches_of_one_file() -> None:
    whole = np.arange(1000, dtype=np.uint16)
    joined = JoinedArrays([whole[:13], whole[13:14], whole[14:600], whole[600:]])
    one = Batches(TokenStore(whole, None, None), context_tokens=7, sequences_per_step=50, seed=4)
    other = Batches(TokenStore(joined, None, None), context_tokens=7, sequences_per_step=50, seed=4)
    for step in range(3):
        assert np.array_equal(one.step(step)[0], other.step(step)[0])
        assert np.array_equal(one.step(step)[1], other.step(step)[1])


def test_too_short_for_a_window() -> None:
    with pytest.raises(UserError, match="fewer than one sequence"):
        batches(4, context=4)


def test_validation_spreads_over_the_store_and_never_changes() -> None:
    store = counting_store(1001)
    inputs, targets, num_bytes = validation_batches(store, context_tokens=10, tokens=59)
    assert inputs[:, 0].tolist() == [0, 200, 400, 600, 800]
    assert np.array_equal(targets, inputs + 1)
    assert num_bytes == 50
    again, _, _ = validation_batches(store, context_tokens=10, tokens=59)
    assert np.array_equal(inputs, again)


def test_validation_is_capped_by_the_store() -> None:
    inputs, _, _ = validation_batches(counting_store(35), context_tokens=10, tokens=10**6)
    assert inputs[:, 0].tolist() == [0, 10, 20]


def test_validation_bytes_are_those_of_the_counted_targets() -> None:
    tokens = np.array([0, 1, 2, 0, 1], dtype=np.uint16)
    lengths = np.array([3, 5, 0], dtype=np.uint16)  # id 2 is an end of text
    _, _, num_bytes = validation_batches(TokenStore(tokens, None, 16, lengths), context_tokens=4, tokens=4)
    assert num_bytes == 5 + 0 + 3 + 5
    mask = np.array([True, False, True, True, False])
    _, _, counted = validation_batches(TokenStore(tokens, mask, 16, lengths), context_tokens=4, tokens=4)
    assert counted == 0 + 3
    _, _, unknown = validation_batches(TokenStore(tokens, None, None), context_tokens=4, tokens=4)
    assert unknown is None


def test_validation_shorter_than_a_sequence() -> None:
    with pytest.raises(UserError, match=r"eval\.tokens = 3"):
        validation_batches(counting_store(100), context_tokens=4, tokens=3)


def test_validation_set_hash_stands_for_the_questions() -> None:
    store = counting_store(101)
    own = validation_set_hash(store, context_tokens=10, tokens=50)
    assert own == validation_set_hash(counting_store(101), context_tokens=10, tokens=59)
    assert own != validation_set_hash(store, context_tokens=10, tokens=60)
    assert own != validation_set_hash(store, context_tokens=5, tokens=50)
    masked = counting_store(101, loss_mask=np.ones(101, dtype=np.bool_))
    assert own == validation_set_hash(masked, context_tokens=10, tokens=50)
    assert own == GOLDEN_HASH


GOLDEN_HASH = "2c2e64a5e8aabad80b81745ffb219e9a9d1e2867bd31f6d43a51cbf2787eeb20"
