"""The tokens of the synthetic corpus: their numbers, and how they are spelt."""

from __future__ import annotations

from dataclasses import dataclass

from attnres_cli.errors import UserError

PAD, BEGIN, ANSWER, FIRST_SYMBOL = 0, 1, 2, 3
_MARKS = {PAD: ".", BEGIN: "^", ANSWER: "?"}


@dataclass(frozen=True)
class Vocabulary:
    """pad, begin, answer; then the symbols; then `hops_marks` tokens that say 1, 2 … hops; then, where `has_pairs`, a
    token for every pair of symbols."""

    symbols: int
    hops_marks: int = 0
    has_pairs: bool = False

    @property
    def first_hops_mark(self) -> int:
        return FIRST_SYMBOL + self.symbols

    @property
    def first_pair(self) -> int:
        """The token of the pair (0, 0); that of (a, b) is a × symbols + b on."""
        return self.first_hops_mark + self.hops_marks

    @property
    def size(self) -> int:
        return self.first_pair + (self.symbols**2 if self.has_pairs else 0)

    def text(self, ids: list[int]) -> str:
        """`^ 12 4 ? 12 4 .` (begin, symbols, answer, symbols, pad); `*3` says three hops, `12-4` is a pair."""
        return " ".join(map(self._word, ids))

    def ids(self, text: str) -> list[int]:
        """The tokens of a text in that spelling. Raises UserError at a word that is none."""
        marks = {mark: token for token, mark in _MARKS.items()}
        return [marks[word] if word in marks else self._token(word) for word in text.split()]

    def _word(self, token: int) -> str:
        if token in _MARKS:
            return _MARKS[token]
        if token >= self.first_pair:
            key, value = divmod(token - self.first_pair, self.symbols)
            return f"{key}-{value}"
        if token >= self.first_hops_mark:
            return f"*{token - self.first_hops_mark + 1}"
        return str(token - FIRST_SYMBOL)

    def _token(self, word: str) -> int:
        key, dash, value = word.partition("-")
        if not dash and (symbol := _number(word, self.symbols)) is not None:
            return FIRST_SYMBOL + symbol
        if word.startswith("*") and (hops := _number(word[1:], self.hops_marks + 1)):
            return self.first_hops_mark + hops - 1
        first, second = _number(key, self.symbols), _number(value, self.symbols)
        if self.has_pairs and first is not None and second is not None:
            return self.first_pair + first * self.symbols + second
        more = f", *1 to *{self.hops_marks} (hops)" if self.hops_marks else ""
        more += ", pairs such as 0-1" if self.has_pairs else ""
        raise UserError(
            f"'{word}' is no token of this corpus.",
            expected=f"^ (begin), ? (answer), . (pad) and symbols 0 to {self.symbols - 1}{more}, separated by spaces",
        )


def _number(word: str, limit: int) -> int | None:
    """A whole number below `limit`; None for anything else."""
    return int(word) if word.isascii() and word.isdecimal() and int(word) < limit else None
