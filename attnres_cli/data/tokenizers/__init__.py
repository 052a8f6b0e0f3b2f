"""Tokenizers: every file here is one kind, and says which names it answers to.

A kind has `names()` (names worth showing in a message), `accepts(name)`, `vocabulary_size(name, base_folder)` (at once,
without loading more than it must) and `load(name, base_folder)`. It may say the `BYTES_PER_TOKEN` of usual text. No
kind ever downloads anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from attnres_cli import discovery
from attnres_cli.errors import UserError, nearest_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PACKAGE = "data.tokenizers"
END_OF_TEXT = "<|endoftext|>"


class Tokenizer(Protocol):
    """Turns text into token ids and back, without loss."""

    @property
    def name(self) -> str: ...

    @property
    def vocab_size(self) -> int:
        """One more than the largest id, end of text and other specials included."""

    @property
    def end_of_text(self) -> int:
        """The id that stands after every document."""

    @property
    def digest(self) -> str:
        """Hexadecimal; equal digests give equal ids for every text."""

    @property
    def bytes_per_id(self) -> npt.NDArray[np.uint16]:
        """UTF-8 bytes that each id stands for, 0 for specials; uint16 [vocab_size]."""

    def encode_documents(self, texts: Sequence[bytes]) -> list[npt.NDArray[np.uint32]]:
        """Ids of each text (valid UTF-8), without end of text, on all cores; one uint32 array per text.

        The spelling of a special token inside a text is ordinary text.
        """

    def token_bytes(self, token: int) -> bytes:
        """The UTF-8 bytes of one id, which may begin or end within a character; specials by their spelling."""

    def decode(self, ids: Sequence[int]) -> str:
        """The ids as text; end of text shows as <|endoftext|>, bytes that are no whole character as U+FFFD."""


def load_tokenizer(name: str, base_folder: Path | None = None) -> Tokenizer:
    """The tokenizer of this name; paths are relative to `base_folder` (default: the working folder).

    Raises UserError for an unknown name, a missing or damaged file, or a tiktoken vocabulary that is not cached.
    """
    tokenizer: Tokenizer = _kind_of(name).load(name, base_folder or Path())
    return tokenizer


def vocabulary_size(name: str, base_folder: Path | None = None) -> int:
    """Vocabulary size of the tokenizer of this name, known or read off its file, without building it."""
    size: int = _kind_of(name).vocabulary_size(name, base_folder or Path())
    return size


def is_known(name: str) -> bool:
    """Whether a kind answers to this name; its file may be missing."""
    return any(kind.accepts(name) for kind in _kinds())


def usual_bytes_per_token(name: str) -> float | None:
    """Bytes of text per token as its kind says, exact or measured; None where it says nothing."""
    usual: float | None = getattr(_kind_of(name), "BYTES_PER_TOKEN", None)
    return usual


def known_names() -> tuple[str, ...]:
    """Names that `load_tokenizer` knows (paths of rank files work too)."""
    return tuple(name for kind in _kinds() for name in kind.names())


def _kind_of(name: str) -> ModuleType:
    for kind in _kinds():
        if kind.accepts(name):
            return kind
    raise UserError(
        f"There is no tokenizer '{name}'.",
        expected=", ".join(known_names()) + ", or the path of a rank file (….tiktoken)",
        nearest=nearest_name(name, known_names()),
    )


def _kinds() -> list[ModuleType]:
    return [discovery.load(PACKAGE, kind, what="tokenizer") for kind in discovery.names(PACKAGE)]
