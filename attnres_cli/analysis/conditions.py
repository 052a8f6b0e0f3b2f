"""Conditions over measured figures, such as "attnres-block.step_ratio > 1.05" or "a.loss > baseline.loss + 0.01".

    condition   sum  <, <=, >, >=, == or !=  sum
    sum         product  { + or -  product }
    product     factor  { * or /  factor }
    factor      number,  name,  - factor  or  ( sum )
    name        segments joined by dots, two at least: attnres-block.loss, baseline.attnres-block.loss, "my run".loss

A segment begins with a letter and may hold letters, digits, "_", "@" and "-"; in double quotes it may hold anything
but a double quote. The last segment, a figure's name, has no "-", so that "a.loss-1" is a difference; between
two names a minus sign needs a space before it. What a name means is its reader's affair: `Condition.judge` is given a
function from segments to a number.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from attnres_cli.errors import ExitCode, UserError

Name = tuple[str, ...]
Lookup = Callable[[Name], float]
Value = Callable[[Lookup], float]

WHERE = "--fail-on"
EXPECTED = 'arm.metric, a comparison and an expression, such as "ARM.step_ratio > 1.05"'
MOST_PARENTHESES = 40
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip

_SEGMENT = r'(?:[^\W\d][\w@-]*|"[^"]+")'
_TOKEN = re.compile(
    rf"""\s*(?:
        (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>(?:{_SEGMENT}\.)+(?:[^\W\d]\w*|"[^"]+"))
      | (?P<sign><=|>=|==|!=|[<>+*/()-])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Outcome:
    """A condition with the numbers put in. text: as the user wrote it."""

    text: str
    left: float
    comparison: str
    right: float
    holds: bool

    def __str__(self) -> str:
        return f"{self.text}: {self.left:.6g} {self.comparison} {self.right:.6g} is {'true' if self.holds else 'false'}"


@dataclass(frozen=True)
class Condition:
    """A condition that was read. names: every name in it, in order, each once."""

    text: str
    names: tuple[Name, ...]
    comparison: str
    left: Value
    right: Value

    def judge(self, lookup: Lookup) -> Outcome:
        """Whether it holds. Raises UserError for a division by zero or a side that is no finite number."""
        try:
            left, right = self.left(lookup), self.right(lookup)
        except ZeroDivisionError:
            raise _fault(f"'{self.text}' divides by zero.") from None
        if not (math.isfinite(left) and math.isfinite(right)):
            raise _fault(f"'{self.text}' compares {left} with {right}.", expected="finite numbers")
        return Outcome(self.text, left, self.comparison, right, COMPARISONS[self.comparison](left, right))


def parse_condition(text: str) -> Condition:
    """Raises UserError that shows the place where `text` stops being a condition."""
    return _Reader(text).condition()


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


class _Reader:
    """Recursive descent over the tokens; every method reads one rule of the grammar and returns how to compute it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens())
        self.next = 0
        self.open = 0
        self.names: dict[Name, None] = {}

    def condition(self) -> Condition:
        left = self._sum()
        comparison = self._take(*COMPARISONS)
        if comparison is None:
            raise self._unexpected("a comparison: <, <=, >, >=, == or !=")
        right = self._sum()
        if self._now.kind != "end":
            raise self._unexpected("the end")
        return Condition(self.text, tuple(self.names), comparison, left, right)

    def _sum(self) -> Value:
        value = self._product()
        while sign := self._take("+", "-"):
            value = _joined(operator.add if sign == "+" else operator.sub, value, self._product())
        return value

    def _product(self) -> Value:
        value = self._factor()
        while sign := self._take("*", "/"):
            value = _joined(operator.mul if sign == "*" else operator.truediv, value, self._factor())
        return value

    def _factor(self) -> Value:
        negative = False
        while self._take("-"):
            negative = not negative
        value = self._bare_factor()
        return (lambda lookup: -value(lookup)) if negative else value

    def _bare_factor(self) -> Value:
        token = self._now
        if token.kind == "number":
            self.next += 1
            number = float(token.text)
            return lambda lookup: number
        if token.kind == "name":
            self.next += 1
            name = tuple(part.strip('"') for part in re.findall(r'"[^"]+"|[^."]+', token.text))
            self.names[name] = None
            return lambda lookup: lookup(name)
        if self._take("("):
            self.open += 1
            if self.open > MOST_PARENTHESES:
                raise self._unexpected(f"at most {MOST_PARENTHESES} parentheses inside one another")
            value = self._sum()
            if not self._take(")"):
                raise self._unexpected("a closing parenthesis")
            self.open -= 1
            return value
        raise self._unexpected('a number, a name with a dot such as "ARM.step_ratio", or a parenthesis')

    @property
    def _now(self) -> _Token:
        return self.tokens[self.next]

    def _take(self, *signs: str) -> str | None:
        """The next token if it is one of `signs`, and go past it."""
        token = self._now
        if token.kind != "sign" or token.text not in signs:
            return None
        self.next += 1
        return token.text

    def _tokens(self) -> Iterator[_Token]:
        position, end = 0, len(self.text.rstrip())
        while position < end:
            match = _TOKEN.match(self.text, position)
            if match is None:
                rest = self.text[position:].strip()
                raise _fault(f"'{self.text}' cannot be read from '{rest}' on.", expected=EXPECTED)
            kind = match.lastgroup or ""
            yield _Token(kind, match[kind], match.start(kind))
            position = match.end()
        yield _Token("end", "", end)

    def _unexpected(self, wanted: str) -> UserError:
        token = self._now
        if token.kind == "end":
            return _fault(f"'{self.text}' ends too early.", expected=wanted)
        return _fault(f"'{self.text}' cannot be read from '{self.text[token.position :]}' on.", expected=wanted)


def _joined(join: Callable[[float, float], float], left: Value, right: Value) -> Value:
    return lambda lookup: join(left(lookup), right(lookup))


def _fault(what: str, *, expected: str | None = None) -> UserError:
    return UserError(what, where=WHERE, expected=expected, exit_code=ExitCode.USAGE)
