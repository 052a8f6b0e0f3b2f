"""A run's tokens as text and back: through its tokenizer, in its corpus's own spelling, or as bare ids."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Protocol

from attnres_cli.data.sources import corpus_module
from attnres_cli.data.tokenizers import Tokenizer, load_tokenizer
from attnres_cli.errors import UserError
from attnres_cli.preset.schema import DataConfig

NO_TOKENIZER = "none"


class Spelling(Protocol):
    """How token ids are written. between_documents: the token that stands there, before the first token of a text and
    after its last; None where there is none."""

    between_documents: int | None

    def encode(self, text: str) -> list[int]:
        """The tokens of a prompt. Raises UserError where it is none of this spelling."""

    def writer(self) -> Callable[[int | None], str]:
        """A function from each token of a continuation, in order, to the text that is complete with it, and from None,
        after the last, to what is left."""


def spelling_of(config: DataConfig, vocab_size: int, base_folder: Path) -> Spelling:
    """The spelling of a run's [data] section. Raises UserError when its tokenizer is not on this machine."""
    module = corpus_module(config)
    if hasattr(module, "encode"):
        return Symbols(config, module)
    if config.tokenizer == NO_TOKENIZER:
        return Ids(vocab_size)
    return Text(load_tokenizer(config.tokenizer, base_folder))


class Text:
    """UTF-8 text; a character appears when its last byte is there, bytes that are none as U+FFFD."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.between_documents: int | None = tokenizer.end_of_text

    def encode(self, text: str) -> list[int]:
        (ids,) = self._tokenizer.encode_documents([text.encode("utf-8")])
        return [int(token) for token in ids]

    def writer(self) -> Callable[[int | None], str]:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

        def write(token: int | None) -> str:
            return decoder.decode(b"", True) if token is None else decoder.decode(self._tokenizer.token_bytes(token))

        return write


class Words:
    """One word per token, separated by spaces."""

    between_documents: int | None = None

    def word(self, token: int) -> str:
        raise NotImplementedError

    def writer(self) -> Callable[[int | None], str]:
        separator = ""

        def write(token: int | None) -> str:
            nonlocal separator
            text = "" if token is None else separator + self.word(token)
            separator = " "
            return text

        return write


class Symbols(Words):
    """A corpus that has a spelling of its own."""

    def __init__(self, config: DataConfig, module: ModuleType) -> None:
        self._config, self._module = config, module

    def encode(self, text: str) -> list[int]:
        return list(self._module.encode(self._config, text))

    def word(self, token: int) -> str:
        return str(self._module.decode(self._config, [token]))


class Ids(Words):
    """Token ids as numbers: all that is known of files of tokens whose tokenizer is not."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    def encode(self, text: str) -> list[int]:
        words = text.split()
        wrong = [word for word in words if not (word.isdecimal() and int(word) < self._vocab_size)]
        if wrong:
            raise UserError(
                f"'{wrong[0]}' is no token id.",
                expected=f"numbers below {self._vocab_size}, separated by spaces: this run knows no tokenizer",
            )
        return [int(word) for word in words]

    def word(self, token: int) -> str:
        return str(token)
