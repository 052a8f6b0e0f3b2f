from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.data.documents import Document
from attnres_cli.data.text import clean
from attnres_cli.errors import UserError


def bytes_lost(text: bytes) -> tuple[bytes, int]:
    """The replaced text and the number of undecodable bytes, counted by a decoder's own error reports."""
    lost = 0

    def count(error: UnicodeError) -> tuple[str, int]:
        nonlocal lost
        assert isinstance(error, UnicodeDecodeError)
        lost += error.end - error.start
        return "\N{REPLACEMENT CHARACTER}", error.end

    codecs.register_error("test-count", count)
    return text.decode("utf-8", errors="test-count").encode(), lost


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=4),
            st.text(max_size=4).map(str.encode),
            st.sampled_from([b"\xef\xbf\xbd", b"\xef\xbf", b"\xf0\x9f", b"\r\n", b"\xc3"]),
        ),
        max_size=8,
    ).map(b"".join)
)
def test_replaced_bytes_are_counted(text: bytes) -> None:
    (cleaned,) = clean([Document("x", text)], "replace")
    assert (cleaned.content, cleaned.replaced_bytes) == bytes_lost(text)


def test_valid_text_stays_as_it_is() -> None:
    text = "\ufeffline\r\nnaïve\r\rtab\t\x00 \N{REPLACEMENT CHARACTER}\n".encode()
    for policy in ("replace", "strict"):
        (cleaned,) = clean([Document("x", text)], policy)  # type: ignore[arg-type]
        assert cleaned.content == text
        assert cleaned.replaced_bytes == 0


def test_strict_names_document_and_offset() -> None:
    with pytest.raises(UserError, match=r"b\.txt is not UTF-8: byte ff at offset 4") as caught:
        list(clean([Document("a.txt", b"fine"), Document("b.txt", "né".encode() + b"a\xff!")], "strict"))
    assert caught.value.faults[0].where == "b.txt"
