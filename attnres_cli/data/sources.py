"""A corpus and what turns its documents into tokens, in the one form that `prepare` works with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

import numpy as np
import numpy.typing as npt

from attnres_cli import discovery
from attnres_cli.data import split
from attnres_cli.data.documents import Document, TokenDocument
from attnres_cli.data.text import CleanText, clean
from attnres_cli.data.tokenizers import Tokenizer, load_tokenizer, vocabulary_size
from attnres_cli.preset.schema import DataConfig


class Source(Protocol):
    """Documents as bytes that can be hashed, split and turned into tokens."""

    tokenizer_name: str
    vocab_size: int
    size_key: str  # "data.files": the key that decides how much there is
    identity: str  # equal identities make equal tokens of equal contents
    has_text: bool
    has_loss_masks: bool

    def contents(self) -> Iterator[CleanText]:
        """The documents, the same each time."""

    def longest_piece_bytes(self, total_bytes: int, validation_fraction: float) -> int | None:
        """Longer documents are cut for the split; None: documents stay whole."""

    def encode(self, contents: Sequence[bytes]) -> list[tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_] | None]]:
        """Tokens (uint32 [n], end of text included) and loss mask (bool [n]) of each content."""

    def bytes_per_id(self) -> npt.NDArray[np.uint16] | None:
        """UTF-8 bytes of each id; uint16 [vocab_size]. None where ids stand for no text."""

    def decode(self, ids: Sequence[int]) -> str:
        """The ids as text."""


def corpus_module(config: DataConfig) -> ModuleType:
    """The corpus's file. Raises UserError naming the nearest corpus when there is none of that name."""
    return discovery.load("data.corpora", config.corpus, what="corpus", where="data.corpus")


def size_key(config: DataConfig) -> str:
    """The key ("data.files") of what decides how much text the corpus has."""
    keys = type(config).model_fields
    return f"data.{next((key for key in ('files', 'documents') if key in keys), 'corpus')}"


def vocabulary_size_of(config: DataConfig, base_folder: Path | None = None) -> int:
    """Number of token ids that a model of this [data] section needs, without reading the corpus."""
    module = corpus_module(config)
    if hasattr(module, "vocabulary_size"):
        return int(module.vocabulary_size(config))
    return vocabulary_size(config.tokenizer, base_folder)


def source_of(config: DataConfig, base_folder: Path) -> Source:
    """The source of a corpus that gives texts or token documents."""
    module = corpus_module(config)
    if module.GIVES is Document:
        return TextSource(config, module, base_folder, load_tokenizer(config.tokenizer, base_folder))
    assert module.GIVES is TokenDocument, module.GIVES
    return TokenSource(config, module, base_folder)


class TextSource:
    """A corpus of texts and a tokenizer; end of text stands after every document."""

    has_text = True
    has_loss_masks = False

    def __init__(self, config: DataConfig, module: ModuleType, base_folder: Path, tokenizer: Tokenizer) -> None:
        self._config, self._module, self._base_folder, self._tokenizer = config, module, base_folder, tokenizer
        self.size_key = size_key(config)
        self.tokenizer_name = tokenizer.name
        self.vocab_size = tokenizer.vocab_size
        self.identity = tokenizer.digest

    def contents(self) -> Iterator[CleanText]:
        return clean(self._module.documents(self._config, self._base_folder), self._config.undecodable)

    def longest_piece_bytes(self, total_bytes: int, validation_fraction: float) -> int | None:
        return split.longest_piece_bytes(total_bytes, validation_fraction)

    def encode(self, contents: Sequence[bytes]) -> list[tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_] | None]]:
        end = np.array([self._tokenizer.end_of_text], dtype=np.uint32)
        return [(np.concatenate([ids, end]), None) for ids in self._tokenizer.encode_documents(contents)]

    def bytes_per_id(self) -> npt.NDArray[np.uint16] | None:
        return self._tokenizer.bytes_per_id

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids)


class TokenSource:
    """A corpus of token documents. Content: a document's ids, four bytes each, then its loss mask, one byte each."""

    has_text = False
    has_loss_masks = True
    tokenizer_name = "none"
    identity = "tokens and loss mask"

    def __init__(self, config: DataConfig, module: ModuleType, base_folder: Path) -> None:
        self._config, self._module, self._base_folder = config, module, base_folder
        self.size_key = size_key(config)
        self.vocab_size = int(module.vocabulary_size(config))

    def contents(self) -> Iterator[CleanText]:
        document: TokenDocument
        for document in self._module.documents(self._config, self._base_folder):
            counts = np.ones(len(document.tokens), np.bool_) if document.loss_mask is None else document.loss_mask
            yield CleanText(document.name, document.tokens.astype("<u4").tobytes() + counts.tobytes(), 0)

    def longest_piece_bytes(self, total_bytes: int, validation_fraction: float) -> int | None:
        return None

    def encode(self, contents: Sequence[bytes]) -> list[tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_] | None]]:
        encoded: list[tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_] | None]] = []
        for content in contents:
            num_tokens = len(content) // 5
            tokens = np.frombuffer(content, dtype="<u4", count=num_tokens).astype(np.uint32)
            encoded.append((tokens, np.frombuffer(content, dtype=np.bool_, offset=4 * num_tokens)))
        return encoded

    def bytes_per_id(self) -> npt.NDArray[np.uint16] | None:
        return None

    def decode(self, ids: Sequence[int]) -> str:
        if hasattr(self._module, "decode"):
            return str(self._module.decode(self._config, list(ids)))
        return " ".join(map(str, ids))
