from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.data.split import Split, choose, content_digest, cut, longest_piece_bytes, score


def split_of(contents: list[bytes], fraction: float, piece_bytes: int | None = None) -> Split:
    split = chosen(contents, fraction, piece_bytes)
    assert split is not None
    return split


def chosen(contents: list[bytes], fraction: float, piece_bytes: int | None = None) -> Split | None:
    units = [piece for content in contents for piece in cut(content, piece_bytes)]
    scores = np.array([score(content_digest(unit)) for unit in units], dtype=np.uint64)
    sizes = np.array([len(unit) for unit in units], dtype=np.int64)
    return choose(scores, sizes, fraction, piece_bytes)


def held_out(contents: list[bytes], fraction: float) -> set[bytes]:
    split = split_of(contents, fraction)
    return {content for content in contents if split.is_validation(content)}


@given(st.text(max_size=300), st.integers(4, 40))
def test_pieces_are_the_text_and_cut_no_character(text: str, piece_bytes: int) -> None:
    pieces = list(cut(text.encode(), piece_bytes))
    assert b"".join(pieces) == text.encode()
    assert all(0 < len(piece) <= piece_bytes for piece in pieces) or pieces == [b""]
    assert "".join(piece.decode() for piece in pieces) == text


def test_pieces_end_at_line_ends() -> None:
    text = b"one two\nthree\nfour five six\nseven\n" * 4
    pieces = list(cut(text, 32))
    assert len(pieces) > 3
    assert all(piece.endswith(b"\n") for piece in pieces)


def test_crlf_stays_together() -> None:
    assert all(piece.endswith(b"\r\n") for piece in cut(b"some words\r\n" * 20, 32))


@given(st.lists(st.binary(min_size=1, max_size=12), min_size=2, max_size=40, unique=True), st.floats(0.01, 0.9))
def test_both_sides_have_something(contents: list[bytes], fraction: float) -> None:
    chosen = held_out(contents, fraction)
    assert 0 < len(chosen) < len(contents)


def test_share_is_that_asked_for() -> None:
    contents = [str(number).encode() * (1 + number % 7) for number in range(3000)]
    chosen = held_out(contents, 0.1)
    share = sum(map(len, chosen)) / sum(map(len, contents))
    assert 0.1 <= share < 0.102


def test_order_does_not_matter_and_a_new_document_moves_only_the_border() -> None:
    contents = [f"document {number}".encode() for number in range(500)]
    chosen = held_out(contents, 0.1)
    assert held_out(contents[::-1], 0.1) == chosen
    assert len(held_out([*contents, b"one more"], 0.1) ^ chosen) <= 2


def test_equal_documents_land_on_the_same_side() -> None:
    contents = [f"document {number % 50}".encode() for number in range(500)]
    split = split_of(contents, 0.1)
    sides = [split.is_validation(content) for content in contents]
    assert sides[:50] * 10 == sides


@pytest.mark.parametrize("contents", [[b"short"], [b"again"] * 20])
def test_what_can_not_be_split(contents: list[bytes]) -> None:
    assert chosen(contents, 0.1) is None


def test_pieces_are_at_most_half_the_validation_set() -> None:
    assert longest_piece_bytes(10_000_000, 0.05) == 2**17
    assert longest_piece_bytes(10_000_001, 0.05) == 2**17
    assert longest_piece_bytes(100, 0.05) == 256


def test_one_long_document_has_a_validation_set() -> None:
    text = b"".join(b"line %d of a long document\n" % number for number in range(4000))
    piece_bytes = longest_piece_bytes(len(text), 0.05)
    split = split_of([text], 0.05, piece_bytes)
    share = sum(len(piece) for piece in cut(text, piece_bytes) if split.is_validation(piece)) / len(text)
    assert 0.05 <= share <= 0.075
