"""The scanner finds the line of every key that a parser finds, in any valid document."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnres_cli.preset.positions import KeyPath, key_lines, value_end


def paths(value: Any, above: KeyPath = ()) -> Iterator[KeyPath]:
    """The path of every key in a parsed document."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*above, key)
            yield from paths(item, (*above, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths(item, (*above, index))


EXAMPLES: dict[str, tuple[str, dict[KeyPath, int]]] = {
    "dotted keys": ("a . b.c = 1\na.d = 2\n", {("a",): 1, ("a", "b"): 1, ("a", "b", "c"): 1, ("a", "d"): 2}),
    "quoted keys": (
        '\n"a.b" = 1\n\'c "d\' = 2\n"" = 3\n"\\u00e9\\t" = 4\n',
        {("a.b",): 2, ('c "d',): 3, ("",): 4, ("é\t",): 5},
    ),
    "dotted and quoted in a header": (
        "[ a.'b c' . \"d\" ]\nx=1\n",
        {("a",): 1, ("a", "b c", "d"): 1, ("a", "b c", "d", "x"): 2},
    ),
    "table after its subtable": ("[a.b]\nx=1\n[a]\ny=2\n", {("a",): 1, ("a", "b", "x"): 2, ("a", "y"): 4}),
    "array of tables": (
        "[[p]]\nx=1\n[p.q]\nz=0\n[[p]]\n[[p.r]]\ny=2\n[[p.r]]\ny=3\n",
        {("p",): 1, ("p", 0, "x"): 2, ("p", 0, "q", "z"): 4, ("p", 1, "r", 0, "y"): 7, ("p", 1, "r", 1, "y"): 9},
    ),
    "inline tables": (
        "a = { b = 1, c.d = { e = [ { f = 1 } ] } }\ng = 1",
        {("a", "b"): 1, ("a", "c"): 1, ("a", "c", "d", "e", 0, "f"): 1, ("g",): 2},
    ),
    "empty inline table and array": (
        "a = {}\nb = []\nc = {  }\nd = [ ]\n",
        {("a",): 1, ("b",): 2, ("c",): 3, ("d",): 4},
    ),
    "array over lines": (
        "a = [ # [\n  1, # ]\n  { x = 2 },\n  [ { y = 3 }, ],\n]\nb = 1\n",
        {("a",): 1, ("a", 1, "x"): 3, ("a", 2, 0, "y"): 4, ("b",): 6},
    ),
    "strings that look like TOML": (
        'a = "[x]\\"\\\\" # "\n'
        "b = '''\n[c]\nd = 1\n'''\ne = \"\"\"\\\"\"\"\\\n f = 2 \"\"\"\"\" # \"\ng = ''''''\nh = ''\n",
        {("a",): 1, ("b",): 2, ("e",): 6, ("g",): 8, ("h",): 9},
    ),
    "backslashes in literal strings": (
        "a = 'C:\\'\n'b\\' = 1\nc = '''\\'''\nd = 2\n",
        {("a",): 1, ("b\\",): 2, ("c",): 3, ("d",): 4},
    ),
    "dates with spaces": ("a = 1979-05-27 07:32:00 # x\nb=07:32:00\n", {("a",): 1, ("b",): 2}),
    "no line end at the end": ("[a]\nb = true", {("a",): 1, ("a", "b"): 2}),
    "comments and blank lines": ("# a = 1\n\n  # [b]\n\t c = 1 # d = 2\n", {("c",): 4}),
    "other separators of lines are none": ("a = '\x85\u2028'\nb = 1\n", {("a",): 1, ("b",): 2}),
    "nothing": ("", {}),
}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_known_documents(name: str, ending: str) -> None:
    text, expected = EXAMPLES[name]
    text = text.replace("\n", ending)
    lines = key_lines(text)
    assert {path: lines.get(path) for path in expected} == expected
    assert set(lines) == set(paths(tomllib.loads(text)))


def test_inline_table_over_lines() -> None:
    """TOML 1.1, which tomli reads and tomllib does not."""
    lines = key_lines("a = { # one\n  b = 1,\n  c = 2, # two\n}\nd = 3\n")
    assert lines == {("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("d",): 5}


# ---- documents made at random; whoever writes a key knows its line

BARE = st.text("abcXYZ019_-", min_size=1, max_size=4)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
TRICKY = st.lists(
    st.sampled_from(["a", "[b]", "c = 1", "#", "'", '"', "\\", "\n", "{", "}", ",", "]", " "]), max_size=6
).map("".join)
SPACE = st.sampled_from(["", " ", "  ", "\t"])


def escaped(text: str) -> str:
    """`text` as the content of a basic string."""
    return json.dumps(text)[1:-1].replace("\x7f", "\\u007f")  # JSON's escapes are TOML's, surrogate pairs apart


def without_surrogates(text: str) -> str:
    return "".join(char for char in text if ord(char) < 0x10000)


class Writer:
    """Writes a random document, and the line of every key as it writes it."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[KeyPath, int] = {}
        self.serial = 0

    def write(self, text: str) -> None:
        self.text += text

    def space(self) -> None:
        self.write(self.draw(SPACE))

    def blank(self) -> None:
        """Where line breaks and comments may stand."""
        for _ in range(self.draw(st.integers(0, 2))):
            self.space()
            if self.draw(st.booleans()):
                self.write("# ]}, x = '\"")
            self.write("\n")
        self.space()

    def key(self, above: KeyPath) -> KeyPath:
        """One to three parts with dots between; the last is like no other, so that documents are valid."""
        path = above
        for _ in range(self.draw(st.integers(0, 2))):
            path = self.part(path, self.new_name())
            self.space()
            self.write(".")
            self.space()
        return self.part(path, self.new_name())

    def new_name(self) -> str:
        self.serial += 1
        kind = self.draw(st.sampled_from(["bare", "any", "tricky"]))
        text = self.draw({"bare": BARE, "any": ANY_TEXT, "tricky": TRICKY}[kind])
        return f"{without_surrogates(text)}{self.serial}"

    def part(self, above: KeyPath, name: str) -> KeyPath:
        path = (*above, name)
        self.lines.setdefault(path, self.text.count("\n") + 1)
        forms = [f'"{escaped(name)}"']
        if all(char in "abcXYZ0123456789_-" for char in name):
            forms.append(name)
        if "'" not in name and all(ord(char) >= 32 and ord(char) != 127 for char in name):
            forms.append(f"'{name}'")
        self.write(self.draw(st.sampled_from(forms)))
        return path

    def key_value(self, above: KeyPath, depth: int) -> None:
        path = self.key(above)
        self.space()
        self.write("=")
        self.space()
        self.value(path, depth)
        self.space()

    def value(self, path: KeyPath, depth: int) -> None:
        kinds = ["scalar", "string", "long string"] + (["array", "inline"] if depth < 3 else [])
        kind = self.draw(st.sampled_from(kinds))
        if kind == "scalar":
            self.write(
                self.draw(
                    st.sampled_from(
                        ["1", "-2.5e3", "true", "inf", "1979-05-27 07:32:00Z", "07:32:00", "0x_f".replace("_", "")]
                    )
                )
            )
        elif kind == "string":
            text = without_surrogates(self.draw(TRICKY))
            literal = "'" not in text and "\n" not in text and self.draw(st.booleans())
            self.write(f"'{text}'" if literal else f'"{escaped(text)}"')
        elif kind == "long string":
            self.long_string()
        elif kind == "array":
            self.write("[")
            for index in range(self.draw(st.integers(0, 3))):
                self.blank()
                self.value((*path, index), depth + 1)
                self.blank()
                self.write(",")
            self.blank()
            self.write("]")
        else:
            self.write("{")
            for index in range(self.draw(st.integers(0, 3))):
                self.write("," if index else "")
                self.space()
                self.key_value(path, depth + 1)
            self.write("}")

    def long_string(self) -> None:
        quote = self.draw(st.sampled_from(['"', "'"]))
        pieces = [
            "a",
            "[b]\n",
            "c = 1\n",
            "# ",
            "\n",
            " ",
            "''" if quote == '"' else '""',
            quote + "x",
            2 * quote + "y",
        ]
        if quote == '"':
            pieces += ["\\\\", '\\"', "\\\n  ", "\\n"]
        body = "".join(self.draw(st.lists(st.sampled_from(pieces), max_size=6)))
        self.write(3 * quote + body + self.draw(st.sampled_from(["", quote, 2 * quote])) + 3 * quote)

    def end_line(self) -> None:
        self.write(self.draw(st.sampled_from(["", "# comment = [\"'", " # x"])) + "\n")

    def document(self) -> None:
        table: KeyPath = ()
        for _ in range(self.draw(st.integers(0, 8))):
            self.blank()
            what = self.draw(st.sampled_from(["key", "key", "table", "array of tables", "more of an array"]))
            if what == "key":
                self.key_value(table, 0)
            elif what == "table":
                self.write("[")
                table = self.key(())
                self.write("]")
            else:
                table = self.element(new=what == "array of tables")
            self.end_line()
        self.blank()

    def element(self, *, new: bool) -> KeyPath:
        """A new element, of a new array of tables or of one that is there."""
        arrays = getattr(self, "arrays", {})
        self.arrays = arrays
        self.write("[[")
        self.space()
        if new or not arrays:
            path = self.key(())
            arrays[path] = 1
        else:
            path = self.draw(st.sampled_from(sorted(arrays, key=str)))
            for position, name in enumerate(path):
                self.write("." if position else "")
                self.part(path[:position], str(name))
            arrays[path] += 1
        self.space()
        self.write("]]")
        return (*path, arrays[path] - 1)


@st.composite
def documents(draw: Any) -> tuple[str, dict[KeyPath, int]]:
    writer = Writer(draw)
    writer.document()
    text = writer.text
    return (text.replace("\n", "\r\n") if draw(st.booleans()) else text), writer.lines


@given(documents())
@settings(max_examples=80)
def test_every_key_of_a_random_document(document: tuple[str, dict[KeyPath, int]]) -> None:
    text, written = document
    found = key_lines(text)
    assert set(paths(tomllib.loads(text))) <= set(found)
    assert found == written


@given(
    st.lists(
        st.sampled_from(
            ["a", "b", ".", " = ", "1", "[", "]", "{", "}", ",", "\n", '"', "'", '"""', "'''", "\\", "#", "\r\n"]
        ),
        max_size=24,
    ).map("".join)
)
@settings(max_examples=300)
def test_whatever_a_parser_takes(text: str) -> None:
    """Texts of tokens at random: the scanner ends on all of them, and is right on those that are valid."""
    lines = key_lines(text)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    rows = text.split("\n")
    assert set(lines) == set(paths(document))
    for path, number in lines.items():
        assert str(path[-1]) in rows[number - 1]


@given(documents())
@settings(max_examples=80)
def test_end_of_a_value(document: tuple[str, dict[KeyPath, int]]) -> None:
    text, _ = document
    value = f"[{{}}, {json.dumps(without_surrogates(text)).replace(chr(127), '')}]"
    assert value_end(f" {value} # more") == len(value) + 1


@pytest.mark.parametrize(
    ("text", "rest"), [("1 # c", "# c"), ("'a' b", " b"), ("[1,\n2] x", " x"), ("{a=1}}", "}"), ("true", "")]
)
def test_what_follows_a_value(text: str, rest: str) -> None:
    assert text[value_end(text) :] == rest
