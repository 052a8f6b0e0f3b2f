"""Names are shown, never obeyed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.report.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[bold] <script> übung 名前", "[bold] <script> übung 名前"),
        ("\x1b[2J", "\\x1b[2J"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("right\u202eleft", "right\\u202eleft"),
        ("bytes \udcff", "bytes \ufffd"),
        ("half a pair \ud800", "half a pair \ufffd"),
    ],
)
def test_invisible_characters_are_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters(exclude_categories=()), max_size=20))
def test_the_result_can_be_printed_and_written(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert visible(shown) == shown
    shown.encode("utf-8")
