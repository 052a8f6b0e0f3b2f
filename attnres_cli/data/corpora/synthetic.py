"""Corpus `synthetic`: small tasks whose answers are known, the same bytes on every machine.

A document is `begin`, what is to be remembered, `answer`, and the answers, filled up with `pad` to a power of two, so
that every window of at least that many tokens (a power of two) starts at a document's start and cuts none. Only the
answers count towards the loss.

- copy:   begin x₁ … xₙ answer x₁ … xₙ
- recall: begin k₁ v₁ … kₙ vₙ answer k v k v …          keys differ; every question is one of them
- hops:   begin a f(a) b f(b) … answer a fᵏ(a) …         f is one cycle through all n nodes, so an answer depends on k
          pairs that lie anywhere in the document: a model that composes one hop per layer needs depth
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from attnres_cli.data.documents import TokenDocument
from attnres_cli.errors import UserError
from attnres_cli.preset.schema import Complaint, DataConfig, NonNegativeInt, OnlyWith, PositiveInt

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PAD, BEGIN, ANSWER, FIRST_SYMBOL = 0, 1, 2, 3
_MARKS = {PAD: ".", BEGIN: "^", ANSWER: "?"}
_NUMBERS_AT_ONCE = 2**20
_STREAM_ORDER, _STREAM_VALUES, _STREAM_QUESTIONS = 0, 1, 2


GIVES = TokenDocument


class Config(DataConfig):
    """[data] with corpus = "synthetic"."""

    ignored_keys: ClassVar[tuple[str, ...]] = ("tokenizer", "undecodable")

    corpus: Literal["synthetic"] = Field(description="synthetic: small tasks with known answers")
    task: Literal["copy", "recall", "hops"] = Field(
        description="copy a sequence, recall the value of a key, or follow a pointer several times"
    )
    documents: PositiveInt = Field(20000, description="documents, training and validation together")
    symbols: Annotated[PositiveInt, Field(le=65000)] = Field(64, description="different symbols")
    length: PositiveInt = Field(15, description="symbols to copy, or pairs to remember, per document")
    questions: Annotated[PositiveInt | None, OnlyWith("task", ("recall", "hops"))] = Field(
        None, description="answers per document; without it half of length, rounded up"
    )
    hops: Annotated[PositiveInt, OnlyWith("task", ("hops",))] = Field(2, description="pointers to follow per answer")
    generator_seed: NonNegativeInt = Field(0, description="names one of many such corpora; the training seed is apart")

    @property
    def resolved_questions(self) -> int:
        """Answers per document, given or derived."""
        return self.questions or -(-self.length // 2)

    @property
    def document_tokens(self) -> int:
        """Tokens per document, padding included: a power of two."""
        used = 2 + 2 * (self.length if self.task == "copy" else self.length + self.resolved_questions)
        return 1 << (used - 1).bit_length()

    def check(self, preset: Any) -> Iterable[Complaint]:
        """The task is possible, and a document fits into a sequence."""
        if self.task != "copy" and self.length > self.symbols:
            message = f"length = {self.length} different keys out of symbols = {self.symbols} don't exist."
            yield Complaint("length", message, f"at most {self.symbols}")
        if self.task != "copy" and self.resolved_questions > self.length:
            message = f"questions = {self.questions} is more than there are pairs."
            yield Complaint("questions", message, f"at most length = {self.length}")
        if self.task == "hops" and self.hops >= self.length:
            message = f"{self.hops} hops come round a cycle of length = {self.length}."
            yield Complaint("hops", message, f"at most {self.length - 1}")
        if self.document_tokens > preset.model.context_tokens:
            message = f"A document of {self.document_tokens} tokens does not fit into a sequence."
            expected = f"a multiple of {self.document_tokens}, or shorter documents (data.length, data.questions)"
            yield Complaint("model.context_tokens", message, expected)


def documents(config: Config, base_folder: Path) -> Iterator[TokenDocument]:
    """The documents in order; document i depends on the task's keys, `generator_seed` and i alone."""
    at_once = max(1, _NUMBERS_AT_ONCE // max(config.symbols, config.document_tokens))
    for first in range(0, config.documents, at_once):
        count = min(at_once, config.documents - first)
        tokens, loss_mask = _LAYOUTS[config.task](config, first, count)
        for row in range(count):
            yield TokenDocument(f"{config.task} {first + row}", tokens[row], loss_mask[row])


def vocabulary_size(config: Config) -> int:
    """pad, begin, answer, and the symbols."""
    return FIRST_SYMBOL + config.symbols


def decode(config: Config, ids: list[int]) -> str:
    """The tokens as text: `^ 12 4 ? 12 4 .` (begin, symbols, answer, symbols, pad)."""
    return " ".join(_MARKS.get(token, str(token - FIRST_SYMBOL)) for token in ids)


def encode(config: Config, text: str) -> list[int]:
    """The tokens of a text in the spelling of `decode`. Raises UserError at a word that is no token."""
    marks = {mark: token for token, mark in _MARKS.items()}
    ids = []
    for word in text.split():
        if word not in marks and not (word.isdecimal() and int(word) < config.symbols):
            raise UserError(
                f"'{word}' is no token of this corpus.",
                expected=f"^ (begin), ? (answer), . (pad) and symbols 0 to {config.symbols - 1}, separated by spaces",
            )
        ids.append(marks[word] if word in marks else FIRST_SYMBOL + int(word))
    return ids


def _copy(config: Config, first: int, count: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    symbols = _any_symbols(config, first, count, config.length)
    tokens, loss_mask = _blank(config, count)
    length = config.length
    tokens[:, 1 : 1 + length] = symbols
    tokens[:, 1 + length] = ANSWER
    tokens[:, 2 + length : 2 + 2 * length] = symbols
    loss_mask[:, 2 + length : 2 + 2 * length] = True
    return tokens, loss_mask


def _recall(config: Config, first: int, count: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    keys = _different_symbols(config, first, count)
    values = _any_symbols(config, first, count, config.length)
    return _pairs_then_questions(config, first, keys, values, values)


def _hops(config: Config, first: int, count: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    import numpy as np

    # The nodes in the order of the cycle, so that the node k hops on is k places on; then shuffled for showing.
    cycle = _different_symbols(config, first, count)
    shown = _orders(config, first, count, config.length, _STREAM_VALUES)

    def shuffled(nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.take_along_axis(nodes, shown, axis=1)

    following = shuffled(np.roll(cycle, -1, axis=1))
    answers = shuffled(np.roll(cycle, -config.hops, axis=1))
    return _pairs_then_questions(config, first, shuffled(cycle), following, answers)


_LAYOUTS = {"copy": _copy, "recall": _recall, "hops": _hops}


def _pairs_then_questions(
    config: Config,
    first: int,
    keys: npt.NDArray[np.int64],
    values: npt.NDArray[np.int64],
    answers: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    """Documents that list keys with values [count, length], then ask for the answers to some of the keys."""
    import numpy as np

    count, length, questions = len(keys), config.length, config.resolved_questions
    tokens, loss_mask = _blank(config, count)
    tokens[:, 1 : 1 + 2 * length : 2] = keys
    tokens[:, 2 : 2 + 2 * length : 2] = values
    tokens[:, 1 + 2 * length] = ANSWER
    asked = _orders(config, first, count, length, _STREAM_QUESTIONS)[:, :questions]
    start = 2 + 2 * length
    tokens[:, start : start + 2 * questions : 2] = np.take_along_axis(keys, asked, axis=1)
    tokens[:, start + 1 : start + 1 + 2 * questions : 2] = np.take_along_axis(answers, asked, axis=1)
    loss_mask[:, start + 1 : start + 1 + 2 * questions : 2] = True
    return tokens, loss_mask


def _blank(config: Config, count: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    import numpy as np

    tokens = np.full((count, config.document_tokens), PAD, dtype=np.uint32)
    tokens[:, 0] = BEGIN
    return tokens, np.zeros((count, config.document_tokens), dtype=np.bool_)


def _any_symbols(config: Config, first: int, count: int, per_document: int) -> npt.NDArray[np.int64]:
    """Independent symbols; int64 [count, per_document]."""
    from attnres_cli.data.random_bits import random_below

    stream = (config.generator_seed, _STREAM_VALUES)
    drawn = random_below(config.symbols, stream, count * per_document, first=first * per_document)
    return drawn.reshape(count, per_document) + FIRST_SYMBOL


def _different_symbols(config: Config, first: int, count: int) -> npt.NDArray[np.int64]:
    """`length` different symbols in random order; int64 [count, length]."""
    return _orders(config, first, count, config.symbols, _STREAM_ORDER)[:, : config.length] + FIRST_SYMBOL


def _orders(config: Config, first: int, count: int, of: int, purpose: int) -> npt.NDArray[np.int64]:
    """A random order of 0 … of − 1 per document, by sorting random keys; int64 [count, of]."""
    import numpy as np

    from attnres_cli.data.random_bits import random_uint64

    keys = random_uint64((config.generator_seed, purpose), count * of, first=first * of).reshape(count, of)
    return np.argsort(keys, axis=1, kind="stable").astype(np.int64)
