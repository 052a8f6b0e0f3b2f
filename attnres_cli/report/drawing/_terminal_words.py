"""Words and letters around a drawing in characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from attnres_cli.report.compared_run import letter
from attnres_cli.report.picture import Lines, Series
from attnres_cli.report.visible import visible

# Letters of the alphabet: more curves are not told apart.
MOST_CURVES = 26
LONGEST_NAME = 32


def columns_of(text: str) -> int:
    """Columns that a terminal gives a text."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def padded(text: str, width: int, *, right: bool = False) -> str:
    """With spaces after it, or before it, to so many columns."""
    spaces = " " * (width - columns_of(text))
    return spaces + text if right else text + spaces


def folded(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns; a longer word is broken, "95 %" is not."""
    lines: list[str] = []
    for word in visible(text).replace(" %", "\u00a0%").split(" "):
        while columns_of(word) > width:
            head = _head(word, width)
            lines.append(head)
            word = word[len(head) :]
        if lines and columns_of(lines[-1]) + 1 + columns_of(word) <= width:
            lines[-1] += f" {word}"
        elif word:
            lines.append(word)
    return [line.replace("\u00a0", " ") for line in lines]


def shortened(name: str, room: int) -> str:
    """The beginning and the end of a name that takes more columns: arms of one scheme differ at their ends."""
    name = visible(name)
    if columns_of(name) <= room:
        return name
    if room < 5:
        return _head(name, room)
    head = _head(name, room // 2)
    tail = _head(name[::-1], room - 1 - columns_of(head))[::-1]
    return f"{head}…{tail}"


def _head(text: str, room: int) -> str:
    """The longest beginning that fits."""
    end = 0
    while end < len(text) and columns_of(text[: end + 1]) <= room:
        end += 1
    return text[:end]


def markers_of(series: Sequence[Series]) -> list[str]:
    """A letter for each series: of single runs the one they are called by ("B prenorm"), else by place."""
    own = [each.label[0] if each.label[1:2] == " " and each.label[0].isupper() else "" for each in series]
    by_place = [letter(each.place) for each in series]
    chosen = own if all(own) and _agree(own, series) else by_place
    return [each if len(each) == 1 and each.isascii() else "" for each in chosen]


def _agree(letters: Sequence[str], series: Sequence[Series]) -> bool:
    """Whether different arms have different letters."""
    return len(set(letters)) == len({each.place for each in series})


def legend(picture: Lines, markers: Sequence[str], width: int, extra: Iterable[str] = ()) -> list[str]:
    """The curves by letter, as many to a line as fit, and what is not drawn."""
    entries: list[str] = []
    for each, marker in zip(picture.series, markers, strict=True):
        if each.dashed:
            continue
        name = shortened(each.label, min(LONGEST_NAME, width - 2))
        if marker:
            entries.append(name if name.startswith(f"{marker} ") else f"{marker} {name}")
    entries += extra
    lines: list[str] = []
    for entry in entries:
        if lines and columns_of(lines[-1]) + 3 + columns_of(entry) <= width:
            lines[-1] += f"   {entry}"
        else:
            lines.append(entry)
    hidden = sum(not marker for marker in markers)
    return lines + ([f"{hidden} more are not drawn; --json has all"] if hidden else [])
