"""Text of a run directory that may hold anything: JSON and TOML read so that whatever is wrong with it is a ValueError.

A file may be damaged, or made by something else: nested until a parser gives up, a number of a thousand digits, half a
character. Those raise errors of other kinds, or break whoever computes with the values or prints them, so they are
turned away here, where every file is read, and nowhere else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

# The deepest file that this program writes has a third of it; walking what is read takes a frame per level.
DEEPEST = 32
# A float ends at 309 digits. Nothing that is counted here comes near.
MOST_DIGITS = 100
NOTHING_BEYOND = 10**MOST_DIGITS
_HALF_A_CHARACTER = ("\ud800", "\udfff")


def parsed_json(text: bytes) -> Any:
    """The JSON value in a text. Numbers that JSON does not know (NaN, Infinity) are null.

    Raises ValueError for whatever is no JSON, or none that can be worked with.
    """
    try:
        value = json.loads(text, parse_int=_whole, parse_constant=_nothing)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _is_suspicious(text):
        check_plain(value)
    return value


def parsed_lines(lines: Sequence[bytes]) -> list[Any]:
    """The same for a text per line, in one go. Raises ValueError where one of them is no JSON."""
    try:
        values = json.loads(b"[" + b",".join(lines) + b"]", parse_int=_whole, parse_constant=_nothing)
    except RecursionError:
        raise ValueError("a line is nested too deeply") from None
    if any(map(_is_suspicious, lines)):
        check_plain(values)
    return list(values)


def parsed_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text; of its kinds of values those that JSON has, too. Raises ValueError for the rest."""
    import tomllib  # `runs ls` does without

    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    check_plain(values)
    return values


def check_plain(value: Any) -> None:
    """Raise ValueError unless a parsed value is shallow, and made of texts that can be written, of numbers that can be
    computed with, of booleans, lists and tables."""
    level = [value]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += [*each.keys(), *each.values()]
            elif isinstance(each, list):
                inner += each
            else:
                _check_leaf(each)
        if not inner:
            return
        level = inner
    raise ValueError("it is nested too deeply")


def _check_leaf(value: object) -> None:
    if isinstance(value, str):
        if not value.isascii() and any(_HALF_A_CHARACTER[0] <= letter <= _HALF_A_CHARACTER[1] for letter in value):
            raise ValueError("a text in it holds half a character")
    elif isinstance(value, int):
        if abs(value) >= NOTHING_BEYOND:
            raise ValueError(f"a number in it has more than {MOST_DIGITS} digits")
    elif value is not None and not isinstance(value, float):
        raise ValueError(f"it holds a {type(value).__name__}")


def _is_suspicious(text: bytes) -> bool:
    """Whether it could be deep, or holds half a character; quick, since almost none is."""
    return b"\\u" in text or text.count(b"[") + text.count(b"{") > DEEPEST


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number in it has more than {MOST_DIGITS} digits")
    return int(digits)


def _nothing(_name: str) -> None:
    return None


def is_number(value: object) -> bool:
    """Whether a parsed value is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and is_finite(value)


def is_finite(value: int | float) -> bool:
    """Also for integers that no float holds: those are not."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
