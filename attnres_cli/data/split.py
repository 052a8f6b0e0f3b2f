"""Which text is held out for validation: chosen by the hash of its content, so that order and names don't matter.

The unit is the document. A document that is long against the validation set (longer than half of it) is cut at line
ends into pieces of at most that length, and each piece counts as a document here; so a corpus of one file has a
validation set, too, and no single document makes it much larger than asked for. The units with the lowest hashes are
held out, until they are `validation_fraction` of the bytes. Equal units land on the same side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SPLIT_RULE = "lowest-hashes-1"
SHORTEST_PIECE_BYTES = 256


@dataclass(frozen=True)
class Split:
    """piece_bytes: longer documents are cut (None: never). Units whose score is at most `threshold` are held out."""

    piece_bytes: int | None
    threshold: int

    def is_validation(self, content: bytes) -> bool:
        """Whether the unit of this content is held out."""
        return score(content_digest(content)) <= self.threshold


def content_digest(content: bytes) -> bytes:
    """32 bytes that stand for the content."""
    return hashlib.sha256(content).digest()


def score(digest: bytes) -> int:
    """The unit's place in the order of choice: uniform in [0, 2⁶⁴)."""
    return int.from_bytes(digest[:8], "big")


def longest_piece_bytes(total_bytes: int, validation_fraction: float) -> int:
    """A power of two, so that a corpus that grows a little is cut where it was: at most half the validation set."""
    half = max(int(total_bytes * validation_fraction / 2), SHORTEST_PIECE_BYTES)
    return 1 << (half.bit_length() - 1)


def cut(text: bytes, piece_bytes: int | None) -> Iterator[bytes]:
    """The text in pieces of at most `piece_bytes`, cut after line ends where there are any, else between characters."""
    start = 0
    while piece_bytes is not None and len(text) - start > piece_bytes:
        stop = text.rfind(b"\n", start + piece_bytes // 2, start + piece_bytes) + 1
        if not stop:
            stop = start + piece_bytes
            while _is_continuation(text[stop]):
                stop -= 1
        yield text[start:stop]
        start = stop
    yield text[start:]


def choose(
    scores: npt.NDArray[np.uint64], sizes: npt.NDArray[np.int64], validation_fraction: float, piece_bytes: int | None
) -> Split | None:
    """The split of units with these scores and sizes (bytes or tokens; [units]); None when nothing would be left on one
    of the sides."""
    order = np.argsort(scores, kind="stable")
    held_out = np.cumsum(sizes[order])
    last = int(np.searchsorted(held_out, validation_fraction * held_out[-1]))
    threshold = scores[order[min(last, len(order) - 1)]]
    highest = scores[order[-1]]
    if threshold == highest:  # one or two large units: everything would be held out, so leave the last for training
        lower = scores[scores < highest]
        if not len(lower):
            return None
        threshold = lower.max()
    return Split(piece_bytes, int(threshold))


def _is_continuation(byte: int) -> bool:
    return byte & 0b1100_0000 == 0b1000_0000
