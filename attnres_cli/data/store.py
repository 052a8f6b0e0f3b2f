"""Prepared data: token ids on disk, mapped into memory, and what is known about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total): bytes, total 0 where it is not known."""


class JoinedArrays:
    """Several one-dimensional arrays of one dtype read as one, without copying them; slices and lengths only."""

    def __init__(self, parts: Sequence[npt.NDArray[Any]]) -> None:
        self.parts = tuple(parts)
        self.dtype = parts[0].dtype
        self._stops = list(accumulate(len(part) for part in parts))

    def __len__(self) -> int:
        return self._stops[-1]

    def __getitem__(self, window: slice) -> npt.NDArray[Any]:
        """The ids of a slice of step 1, copied only where it crosses from one array into the next."""
        start, stop, step = window.indices(len(self))
        assert step == 1, "slices of step 1 only"
        found = []
        for part, part_stop in zip(self.parts, self._stops, strict=True):
            part_start = part_stop - len(part)
            if start < part_stop and part_start < stop:
                found.append(part[max(start - part_start, 0) : stop - part_start])
        if not found:
            return np.empty(0, dtype=self.dtype)
        return found[0] if len(found) == 1 else np.concatenate(found)


@dataclass(frozen=True)
class TokenStore:
    """One side of the split.

    tokens: uint16 or uint32 [num_tokens], a memory map, or several read as one; slice it.
    loss_mask: bool [num_tokens], true where predicting that token counts; None: everywhere.
    num_bytes: UTF-8 bytes of the text, None for corpora that have no text.
    bytes_per_id: uint16 [vocab_size], UTF-8 bytes of each id; None where they aren't known.
    """

    tokens: npt.NDArray[Any] | JoinedArrays
    loss_mask: npt.NDArray[np.bool_] | None
    num_bytes: int | None
    bytes_per_id: npt.NDArray[np.uint16] | None = None

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Dataset:
    """A prepared corpus.

    data_hash: of the text, tokenizer and split rule. validation_hash: of the held-out tokens. decode: ids to text.
    num_documents: documents with something in them (files, for token files). replaced_bytes: bytes that were not UTF-8.
    document_tokens: longest document of a corpus of token documents, whose loss counts inside a document; else None.
    notes: sentences that a user should see. was_cached: nothing had to be tokenised this time.
    """

    corpus: str
    train: TokenStore
    validation: TokenStore
    vocab_size: int
    tokenizer_name: str
    data_hash: str
    validation_hash: str
    num_documents: int
    replaced_bytes: int
    document_tokens: int | None
    notes: list[str]
    decode: Callable[[Sequence[int]], str]
    was_cached: bool
