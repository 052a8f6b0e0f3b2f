"""On which line of a TOML text each key stands.

TOML parsers give positions for syntax errors only; a wrong value, too, should be reported with its line. This is a
scanner, not a parser: the text has been parsed already, so it only has to find where keys begin and values end. It
knows dotted and quoted keys, tables, arrays of tables, inline tables, nested arrays, all four kinds of strings,
comments, and both line endings (TOML 1.0, and the line breaks in inline tables of 1.1).
"""

from __future__ import annotations

import re
from bisect import bisect_right

KeyPath = tuple[str | int, ...]
"""Keys from the top down; an int is an index into an array: ("points", 1, "x")."""

_BARE_KEY = re.compile(r"[^\s=.\[\]{}#,\"']+")
_PLAIN_VALUE = re.compile(r"[^,\]}#\r\n]*")  # numbers, booleans, dates: up to whatever ends a value
_SPACES = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")  # spaces, line breaks and comments
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2})|(.))")
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line (from 1) of every key in `text`, a valid TOML document, by its path.

    A table's line is where it is first named: in its own header, in a subtable's, or as part of a dotted key.
    """
    return _Scanner(text).document()


def named_again(text: str) -> tuple[KeyPath, int, int] | None:
    """(path, its first line, its line now) of the last key or table in `text` that has been named before; None where
    every one is new. `text` is valid but for that, and may end behind it."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.again


def value_end(text: str) -> int:
    """Where in `text` the TOML value ends that it begins with (after spaces); what follows is not part of the value."""
    scanner = _Scanner(text)
    scanner.skip(_SPACES)
    scanner.value(())
    return scanner.at


class _Scanner:
    """A position in a text, moved forward by one method per thing that TOML knows."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[KeyPath, int] = {}
        self.again: tuple[KeyPath, int, int] | None = None
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._elements: dict[KeyPath, int] = {}  # array of tables → how many of its elements are open

    def document(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self.skip(_BLANK)
        while self.at < len(self.text):
            if self.sees("["):
                table = self.header()
            else:
                self.key_and_value(table)
            self.skip(_BLANK)
        return self.lines

    def header(self) -> KeyPath:
        """`[a.b]` or `[[a.b]]`: the path that the keys below it belong to."""
        brackets = 2 if self.sees("[[") else 1
        self.at += brackets
        path: KeyPath = ()
        *parents, (last, position) = self.key_parts()
        for part, parent_position in parents:
            path = self.note((*path, part), parent_position)
            if path in self._elements:  # what stands below an array of tables belongs to its newest element
                path = (*path, self._elements[path] - 1)
        path = self.note((*path, last), position)
        if brackets == 2:
            self._elements[path] = self._elements.get(path, 0) + 1
            path = (*path, self._elements[path] - 1)
        self.at += brackets
        return path

    def key_and_value(self, table: KeyPath) -> None:
        """`a.b = value`, the keys relative to `table`."""
        path = table
        for part, position in self.key_parts():
            path = self.note((*path, part), position)
        self.at += len("=")
        self.skip(_SPACES)
        self.value(path)

    def key_parts(self) -> list[tuple[str, int]]:
        """A dotted key, each part with its position; ends behind the last part and the spaces after it."""
        parts = []
        while True:
            self.skip(_SPACES)
            position = self.at
            parts.append((self.key_part(), position))
            self.skip(_SPACES)
            if not self.sees("."):
                return parts
            self.at += len(".")

    def key_part(self) -> str:
        start = self.at
        if self.sees('"'):
            self.string()
            return _ESCAPE.sub(_unescape, self.text[start + 1 : self.at - 1])
        if self.sees("'"):
            self.string()
            return self.text[start + 1 : self.at - 1]
        self.skip(_BARE_KEY)
        return self.text[start : self.at]

    def value(self, path: KeyPath) -> None:
        if self.sees('"') or self.sees("'"):
            self.string()
        elif self.sees("["):
            self.array(path)
        elif self.sees("{"):
            self.inline_table(path)
        elif not self.skip(_PLAIN_VALUE):  # no value: the text is not valid, and the scan must end all the same
            self.at += 1

    def array(self, path: KeyPath) -> None:
        self.at += len("[")
        index = 0
        while self.another_item("]"):
            self.value((*path, index))
            index += 1

    def inline_table(self, path: KeyPath) -> None:
        self.at += len("{")
        while self.another_item("}"):
            self.key_and_value(path)

    def another_item(self, closing: str) -> bool:
        """Whether an array or inline table goes on; moves to its next item, or behind its end."""
        self.skip(_BLANK)
        if self.sees(","):
            self.at += len(",")
            self.skip(_BLANK)
        if self.sees(closing) or self.at >= len(self.text):
            self.at += len(closing)
            return False
        return True

    def string(self) -> None:
        """Any of the four kinds of string, from its opening quote to behind its closing one."""
        quote = self.text[self.at]
        is_long = self.sees(3 * quote)
        closing = 3 * quote if is_long else quote
        self.at += len(closing)
        while not self.sees(closing) and self.at < len(self.text):
            self.at += 2 if quote == '"' and self.sees("\\") else 1
        self.at += len(closing)
        if is_long:  # up to two quotes more belong to the text: """He said "yes.""""" ends in five
            for _ in range(2):
                self.at += len(quote) if self.sees(quote) else 0

    def note(self, path: KeyPath, position: int) -> KeyPath:
        """Remember the line of `path`, unless it was seen before."""
        line = bisect_right(self._line_starts, position)
        if path in self.lines:
            self.again = (path, self.lines[path], line)
        self.lines.setdefault(path, line)
        return path

    def sees(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def skip(self, pattern: re.Pattern[str]) -> bool:
        """Move behind what matches here; whether anything did."""
        match = pattern.match(self.text, self.at)
        start, self.at = self.at, match.end() if match else self.at
        return self.at > start


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    return chr(int(code, 16)) if code else _ESCAPED.get(match[4], match[4])
