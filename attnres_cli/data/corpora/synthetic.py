"""Corpus `synthetic`: small tasks whose answers are known, the same bytes on every machine.

A document is `begin`, what is to be remembered, `answer`, and the answers, filled up with `pad` to a power of two, so
that every window of at least that many tokens (a power of two) starts at a document's start and cuts none. Only the
answers count towards the loss.

- copy:   begin x₁ … xₙ answer x₁ … xₙ
- recall: begin k₁ v₁ … kₙ vₙ answer k v k v …          keys differ; every question is one of them
- hops:   begin a f(a) b f(b) … answer a fᵏ(a) …         f is one cycle through all n nodes, so an answer depends on k
          pairs that lie anywhere in the document: a model that composes one hop per layer needs depth

With `fewest_hops` every question of `hops` has a number of hops of its own and says it: `a f(a)` for one hop,
`a *k fᵏ(a)` for k of them. The mark stands behind the node, so that whatever k is, the first hop is the same and its
result is there to go on from. With `hops_ratio` small numbers come more often, to be learnt first; the first question
of a document asks for every number equally often, and its answer is the one that `answer_kinds` takes. With
`pair_tokens` a pair is one token: no layer is spent on joining its halves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from attnres_cli.data.corpora._synthetic_layouts import LAYOUTS
from attnres_cli.data.corpora._synthetic_tokens import BEGIN, Vocabulary
from attnres_cli.data.documents import TokenDocument
from attnres_cli.preset.schema import Complaint, DataConfig, NonNegativeInt, OnlyWith, PositiveInt

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_NUMBERS_AT_ONCE = 2**20
MOST_PAIRED_SYMBOLS = 255  # their pairs still are tokens of 16 bits

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
    fewest_hops: Annotated[PositiveInt | None, OnlyWith("task", ("hops",))] = Field(
        None, description="every question says its own number of hops, from this to hops; without it all have hops"
    )
    hops_ratio: Annotated[float, Field(gt=0, le=1), OnlyWith("fewest_hops")] = Field(
        1.0,
        description="questions of one hop more over questions of so many; the first of a document asks for all alike",
    )
    pair_tokens: Annotated[bool, OnlyWith("task", ("hops",))] = Field(
        False, description="a pair is one token instead of two"
    )
    generator_seed: NonNegativeInt = Field(0, description="names one of many such corpora; the training seed is apart")

    @property
    def resolved_questions(self) -> int:
        """Answers per document, given or derived."""
        return self.questions or -(-self.length // 2)

    @property
    def document_tokens(self) -> int:
        """Tokens per document, padding included: a power of two."""
        per_pair = 1 if self.pair_tokens else 2
        per_question = 2 if self.fewest_hops is None else 3
        if self.task == "copy":
            used = 2 + 2 * self.length
        else:
            used = 2 + per_pair * self.length + per_question * self.resolved_questions
        return 1 << (used - 1).bit_length()

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.symbols, 0 if self.fewest_hops is None else self.hops, self.pair_tokens)

    def check(self, preset: Any) -> Iterable[Complaint]:
        """The task is possible, and a document fits into a sequence."""
        if self.task != "copy" and self.length > self.symbols:
            message = f"length = {self.length} different keys out of symbols = {self.symbols} don't exist."
            yield Complaint("length", message, f"at most {self.symbols}", ("symbols",))
        if self.task != "copy" and self.resolved_questions > self.length:
            message = f"questions = {self.questions} is more than there are pairs."
            yield Complaint("questions", message, f"at most length = {self.length}", ("length",))
        if self.task == "hops" and self.hops >= self.length:
            message = f"{self.hops} hops come round a cycle of length = {self.length}."
            yield Complaint("hops", message, f"at most {self.length - 1}", ("length",))
        if self.fewest_hops is not None and self.fewest_hops > self.hops:
            message = f"fewest_hops = {self.fewest_hops} is more than hops = {self.hops}."
            yield Complaint("fewest_hops", message, f"at most hops = {self.hops}", ("hops",))
        if self.pair_tokens and self.symbols > MOST_PAIRED_SYMBOLS:
            message = f"symbols = {self.symbols} make {self.symbols**2:,} pairs, a token each."
            expected = f"at most {MOST_PAIRED_SYMBOLS} beside pair_tokens = true"
            yield Complaint("symbols", message, expected, ("pair_tokens",))
        if self.document_tokens > preset.model.context_tokens:
            message = f"A document of {self.document_tokens} tokens does not fit into a sequence."
            expected = f"a multiple of {self.document_tokens}, or shorter documents (data.length, data.questions)"
            yield Complaint("model.context_tokens", message, expected, ("length", "questions"))


def documents(config: Config, base_folder: Path) -> Iterator[TokenDocument]:
    """The documents in order; document i depends on the task's keys, `generator_seed` and i alone."""
    at_once = max(1, _NUMBERS_AT_ONCE // max(config.symbols, config.document_tokens))
    for first in range(0, config.documents, at_once):
        count = min(at_once, config.documents - first)
        tokens, loss_mask = LAYOUTS[config.task](config, first, count)
        for row in range(count):
            yield TokenDocument(f"{config.task} {first + row}", tokens[row], loss_mask[row])


def vocabulary_size(config: Config) -> int:
    """pad, begin, answer, the symbols, and where they are used the marks of hops and the pairs."""
    return config.vocabulary.size


def num_tokens(config: Config) -> int:
    """Tokens of all documents, padding included."""
    return config.documents * config.document_tokens


def decode(config: Config, ids: list[int]) -> str:
    """The tokens as text, as `Vocabulary.text` spells them."""
    return config.vocabulary.text(ids)


def encode(config: Config, text: str) -> list[int]:
    """The tokens of a text in the spelling of `decode`. Raises UserError at a word that is no token."""
    return config.vocabulary.ids(text)


def answer_kinds(
    config: Config, inputs: npt.NDArray[np.int64], counted: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64] | None:
    """How many hops every prediction answers; int64 [n, T], 0 where it is none, or not the first of its document.

    inputs: int64 [n, T] windows; counted: bool [n, T], whether the prediction made there counts towards the loss. Only
    the first answer of a document is taken: those after it have earlier answers to look at. None for another task.
    """
    import numpy as np

    if config.task != "hops":
        return None
    so_far = np.cumsum(counted, axis=1)
    at_begin = np.maximum.accumulate(np.where(inputs == BEGIN, so_far, 0), axis=1)
    is_first = counted & (so_far - at_begin == 1)
    words = config.vocabulary
    is_mark = (inputs >= words.first_hops_mark) & (inputs < words.first_pair)
    hops = np.where(is_mark, inputs - words.first_hops_mark + 1, 1 if config.fewest_hops is not None else config.hops)
    return np.where(is_first, hops, 0).astype(np.int64)
