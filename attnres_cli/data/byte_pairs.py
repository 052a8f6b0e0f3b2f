"""Byte-pair encoding through tiktoken, on all cores, straight into arrays."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import tiktoken

# GPT-2's pre-tokenisation. tiktoken is faster with possessive quantifiers; trainers want the plain spelling.
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
PLAIN_PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

# A text is cut for the threads only between a letter and a space that a letter follows: GPT-2's pattern and all of
# tiktoken's own end a word there, whatever stands around it, so the pieces have the tokens of the whole.
_SAFE_CUT = re.compile(r"(?<=[A-Za-z])(?= [A-Za-z])")
_CHARACTERS_PER_TASK = 2**18


def encode_on_all_cores(encoding: tiktoken.Encoding, texts: Sequence[bytes]) -> list[npt.NDArray[np.uint32]]:
    """Ids of each text (valid UTF-8), special tokens read as ordinary text; one uint32 array per text, in order."""
    pieces_by_text = [list(_pieces(text.decode())) for text in texts]

    def encode(pieces: list[str]) -> list[npt.NDArray[np.uint32]]:
        # tiktoken works outside the interpreter's lock; ids come as a buffer, because lists of integers would need it.
        return [encoding.encode_to_numpy(piece, disallowed_special=()) for piece in pieces]

    with ThreadPoolExecutor(usable_cores()) as pool:
        tasks = _tasks(piece for pieces in pieces_by_text for piece in pieces)
        encoded = itertools.chain.from_iterable(pool.map(encode, tasks))
        return [_joined([next(encoded) for _ in pieces]) for pieces in pieces_by_text]


def bytes_per_id(encoding: tiktoken.Encoding, vocab_size: int) -> npt.NDArray[np.uint16]:
    """UTF-8 bytes of every id, 0 for specials and for ids that stand for nothing; uint16 [vocab_size]."""
    lengths = np.zeros(vocab_size, dtype=np.uint16)
    for token in range(vocab_size):
        if not encoding.is_special_token(token):
            try:
                lengths[token] = len(encoding.decode_single_token_bytes(token))
            except KeyError:  # tiktoken's own vocabularies have gaps before their specials
                continue
    return lengths


def decode(encoding: tiktoken.Encoding, ids: Sequence[int]) -> str:
    """The ids as text; an id that stands for nothing shows as U+FFFD."""
    return b"".join(token_bytes(encoding, token) for token in ids).decode("utf-8", errors="replace")


def token_bytes(encoding: tiktoken.Encoding, token: int) -> bytes:
    """The bytes of one id; those of U+FFFD where it stands for nothing."""
    try:
        return encoding.decode_single_token_bytes(int(token))
    except KeyError:
        return "\N{REPLACEMENT CHARACTER}".encode()


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > 2 * _CHARACTERS_PER_TASK:
        cut = _SAFE_CUT.search(text, start + _CHARACTERS_PER_TASK)
        if cut is None:
            break
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]


def _tasks(pieces: Iterable[str]) -> Iterator[list[str]]:
    """The pieces in lists large enough that handing one to a thread costs nothing beside encoding it."""
    task: list[str] = []
    characters = 0
    for piece in pieces:
        task.append(piece)
        characters += len(piece)
        if characters >= _CHARACTERS_PER_TASK:
            yield task
            task, characters = [], 0
    if task:
        yield task


def usable_cores() -> int:
    """Cores that this process may use (fewer than the machine has where a scheduler says so)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _joined(arrays: list[npt.NDArray[np.uint32]]) -> npt.NDArray[np.uint32]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
