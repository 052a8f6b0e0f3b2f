"""TOML text: values written and read back are equal; every syntax error is a sentence with a line."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnres_cli.errors import UserError
from attnres_cli.preset.toml import format_key, format_value, parse, parse_value

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), TEXT, st.dates())
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)


def same(one: Any, other: Any) -> bool:
    return bool(one == other) and repr(one) == repr(other)


@given(TEXT, VALUES)
@settings(max_examples=200)
def test_what_is_written_reads_back_equal(key: str, value: Any) -> None:
    text = f"{format_key(key)} = {format_value(value)}"
    assert "\n" not in text
    assert same(tomllib.loads(text), {key: value})
    assert same(parse(text, "x"), {key: value})
    assert same(parse_value(format_value(value)), value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-8, "1e-8"), (3e-3, "0.003"), (1e16, "1e16"), (-2.5e-10, "-2.5e-10"), (9999, "9999"), (262144, "262_144"),
        (True, "true"), (("a",), '["a"]'), ({"a b": 1}, '{"a b" = 1}'), ("\x7f\u2028\t", '"\\u007f\u2028\\t"'),
        (date(2020, 1, 2), "2020-01-02"),
    ],
)  # fmt: skip
def test_how_values_look(value: Any, text: str) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize("text", ["", "1 2", "1 # one", "1\nb = 2", "a", "[1", "'a", "1]", "{a = 1"])
def test_what_is_not_exactly_one_value(text: str) -> None:
    with pytest.raises(ValueError):
        parse_value(text)


@pytest.mark.parametrize(
    ("text", "line", "what", "expected"),
    [
        ("[a]\nscheme = attnres-full\n", 2, "not TOML", 'scheme = "attnres-full"'),
        ("[a]\nx = True # yes\n", 2, "not TOML", "x = true"),
        ("[a]\npath = /data/x\n", 2, "not TOML", 'path = "/data/x"'),
        ("a = 1\n\na = 2\n", 3, "'a' is given a second time", "the first one is my.toml:1"),
        ("[a]\n[b]\n[a]\n", 3, "[a] is given a second time", "the first one is my.toml:1"),
        ('[a]\nb = [\n1]\n"b" = [2,\n3]\n', 4, "'a.b' is given a second time", "the first one is my.toml:2"),
        ("[a]\nb = 1\nb.c = 3\n", 3, "'a.b' is given a second time", "the first one is my.toml:2"),
        ("[a.b]\n[a.c]\n[a.b] # again\n", 3, "[a.b] is given a second time", "the first one is my.toml:1"),
        ("a = 1\nx = {b = 1,\n b = 2}\n", 3, "'x.b' is given a second time", "the first one is my.toml:2"),
        ('a = "x\nb = 1\n', 1, "not closed", None),
        ("a = 1\nb 2\n", 2, "equals sign", None),
        ("[a\n", 1, "not TOML", "not: [a"),
        ("a = [1,\n2", 2, "not TOML", None),
        ("a = \r\n", 1, "not TOML", None),
    ],
)
def test_syntax_errors(text: str, line: int, what: str, expected: str | None) -> None:
    with pytest.raises(UserError) as caught:
        parse(text, "my.toml")
    (fault,) = caught.value.faults
    assert fault.where == f"my.toml:{line}"
    assert what in fault.what
    if expected is not None:
        assert expected in str(fault.expected)


WITHOUT_TOMLI = """
import sys
sys.modules["tomli"] = None
from attnres_cli.errors import UserError
from attnres_cli.preset import toml
assert toml.toml_parser.__name__ == "tomllib"
assert toml.parse_value("[1, 'a']") == [1, "a"]
try:
    toml.parse("[a]\\nx = on\\n", "my.toml")
except UserError as error:
    print(error.faults[0].where)
"""


def test_without_tomli_the_standard_library_reads() -> None:
    """The same sentences from tomllib, whose errors carry no line of their own before Python 3.14."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_TOMLI], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("my.toml:2\n", "")
