"""Which tokens a step sees: windows in an order that is a pure function of the seed and the step.

The training tokens are cut into non-overlapping windows of `context_tokens`. Each epoch visits every window once, in an
order of its own. Nothing is remembered between steps, so that a resumed run sees what an uninterrupted one sees.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from attnres_cli.data.random_bits import random_permutation
from attnres_cli.data.store import TokenStore
from attnres_cli.errors import UserError, plural

IGNORED_TARGET = -100
"""Stands in targets whose prediction doesn't count; torch's cross entropy leaves it out by default."""

_STREAM_ORDER = 0x6F72646572  # "order": apart from every other use of the same seed


class Batches:
    """The training batches of one run.

    windows: non-overlapping windows per epoch; the tokens after the last whole one are not used.
    """

    def __init__(self, store: TokenStore, *, context_tokens: int, sequences_per_step: int, seed: int) -> None:
        self._store = store
        self._context_tokens = context_tokens
        self._sequences_per_step = sequences_per_step
        self._seed = seed
        self.windows = num_windows(store, context_tokens)
        # A step may end one epoch and begin the next.
        self._order = lru_cache(maxsize=2)(self._draw_order)

    def epoch_of(self, step: int) -> float:
        """Epochs that the first `step` steps have seen."""
        return step * self._sequences_per_step / self.windows

    def window_numbers(self, step: int) -> npt.NDArray[np.int64]:
        """Which windows step number `step` (from 0) sees; int64 [sequences_per_step]."""
        first = step * self._sequences_per_step
        return np.array(
            [
                self._order(place // self.windows)[place % self.windows]
                for place in range(first, first + self._sequences_per_step)
            ],
            dtype=np.int64,
        )

    def step(self, step: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Inputs and targets of step number `step` (from 0); int64 [sequences_per_step, context_tokens] each.

        Targets are the inputs' next tokens, IGNORED_TARGET where the loss mask leaves one out.
        """
        return _read_windows(self._store, self.window_numbers(step), self._context_tokens)

    def _draw_order(self, epoch: int) -> npt.NDArray[np.int64]:
        return random_permutation((self._seed, _STREAM_ORDER, epoch), self.windows)


def validation_batches(
    store: TokenStore, *, context_tokens: int, tokens: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], float | None]:
    """The fixed validation sequences: inputs and targets, int64 [n, context_tokens] each, and the bytes they cover.

    n: whole sequences in `tokens`, at most what the store holds, spread evenly over it. The bytes are those of the
    counted targets' text (an end of text is no byte), None for a corpus without text.
    """
    available = num_windows(store, context_tokens)
    wanted = min(tokens // context_tokens, available)
    if not wanted:
        raise UserError(
            f"eval.tokens = {tokens} is less than one sequence.",
            where="eval.tokens",
            expected=f"at least model.context_tokens = {context_tokens}",
        )
    numbers = np.arange(wanted, dtype=np.int64) * available // wanted
    inputs, targets = _read_windows(store, numbers, context_tokens)
    if store.bytes_per_id is None:
        return inputs, targets, None
    counted = targets[targets != IGNORED_TARGET]
    return inputs, targets, float(store.bytes_per_id[counted].sum(dtype=np.int64))


def validation_set_hash(store: TokenStore, *, context_tokens: int, tokens: int) -> str:
    """Hexadecimal SHA-256 of what `validation_batches` gives: equal hashes, equal questions."""
    inputs, targets, _ = validation_batches(store, context_tokens=context_tokens, tokens=tokens)
    digest = hashlib.sha256(f"{inputs.shape}".encode())
    digest.update(inputs.astype("<i8").tobytes())
    digest.update(targets.astype("<i8").tobytes())
    return digest.hexdigest()


def windows_in(num_tokens: int, context_tokens: int) -> int:
    """Windows that have a next token for each of their tokens."""
    return max(0, num_tokens - 1) // context_tokens


def num_windows(store: TokenStore, context_tokens: int) -> int:
    """Windows of a store, at least one. Raises UserError for a store too small for any."""
    windows = windows_in(store.num_tokens, context_tokens)
    if windows < 1:
        raise UserError(
            f"The corpus has {store.num_tokens:,} {plural(store.num_tokens, 'token')}, fewer than one sequence needs.",
            where="model.context_tokens",
            expected=f"more than model.context_tokens = {context_tokens}",
        )
    return windows


def _read_windows(
    store: TokenStore, numbers: npt.NDArray[np.int64], context_tokens: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    spans = [slice(start, start + context_tokens + 1) for start in (numbers * context_tokens).tolist()]
    tokens = np.stack([store.tokens[span] for span in spans]).astype(np.int64)
    inputs, targets = tokens[:, :-1].copy(), tokens[:, 1:].copy()
    if store.loss_mask is not None:
        counts = np.stack([store.loss_mask[span] for span in spans])[:, 1:]
        targets[~counts] = IGNORED_TARGET
    return inputs, targets
