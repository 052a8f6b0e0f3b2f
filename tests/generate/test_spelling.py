"""Token ids to text, piece by piece, and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.data.tokenizers import load_tokenizer
from attnres_cli.errors import UserError
from attnres_cli.generate.spelling import Ids, Spelling, Symbols, Text, spelling_of
from attnres_cli.preset.schema import DataConfig
from attnres_cli.shipped import shipped_folder
from tests.small import small_preset

TEXTS = {name: Text(load_tokenizer(name)) for name in ("bytes", "bpe-4096")}
every_tokenizer = pytest.mark.parametrize("spelling", TEXTS.values(), ids=TEXTS.keys())


def pieces(spelling: Spelling, ids: list[int]) -> list[str]:
    write = spelling.writer()
    return [write(token) for token in ids] + [write(None)]


def section(**values: object) -> DataConfig:
    preset = small_preset()
    return preset.replace({f"data.{key}": value for key, value in values.items()}).data


@every_tokenizer
@given(text=st.text(max_size=40))
def test_text_comes_back_in_whole_characters(spelling: Text, text: str) -> None:
    written = pieces(spelling, spelling.encode(text))
    assert "".join(written) == text
    assert all("\N{REPLACEMENT CHARACTER}" not in piece or "\N{REPLACEMENT CHARACTER}" in text for piece in written)


def test_a_character_of_several_tokens_appears_with_the_last() -> None:
    assert pieces(TEXTS["bytes"], list("aé🙂".encode())) == ["a", "", "é", "", "", "", "🙂", ""]


def test_bytes_that_are_no_character_are_shown_as_such_and_nothing_is_lost_after_them() -> None:
    assert pieces(TEXTS["bytes"], [0xC3, ord("a"), 0xFF, ord("b"), 0xF0, 0x9F]) == ["", "�a", "�", "b", "", "", "�"]


@every_tokenizer
@given(ids=st.lists(st.integers(0, 255), max_size=30))
def test_any_ids_are_the_text_that_decoding_them_at_once_gives(spelling: Text, ids: list[int]) -> None:
    tokenizer = load_tokenizer("bytes" if spelling is TEXTS["bytes"] else "bpe-4096")
    assert "".join(pieces(spelling, ids)) == tokenizer.decode(ids)


@every_tokenizer
def test_a_text_ends_where_the_next_document_begins(spelling: Text) -> None:
    tokenizer = load_tokenizer("bytes" if spelling is TEXTS["bytes"] else "bpe-4096")
    assert spelling.between_documents == tokenizer.end_of_text


def test_a_synthetic_corpus_is_spelt_as_it_is_inspected() -> None:
    spelling = spelling_of(section(), 31, Path())
    assert isinstance(spelling, Symbols)
    assert spelling.encode("^ 0 27 ?\n1 .") == [1, 3, 30, 2, 4, 0]
    assert pieces(spelling, [1, 3, 30, 2, 4, 0]) == ["^", " 0", " 27", " ?", " 1", " .", ""]
    assert spelling.between_documents is None
    for wrong in ("28", "-1", "x", "^^"):
        with pytest.raises(UserError, match="is no token of this corpus"):
            spelling.encode(f"^ {wrong}")


def test_files_of_tokens_are_spelt_with_their_tokenizer_or_as_numbers() -> None:
    files = [str(shipped_folder("data_samples") / "prose-uint16.bin")]
    known = spelling_of(section(corpus="tokens", files=files, vocab_size=4096, tokenizer="bpe-4096"), 4096, Path())
    assert isinstance(known, Text)
    unknown = spelling_of(section(corpus="tokens", files=files, vocab_size=4096), 4096, Path())
    assert isinstance(unknown, Ids)
    assert unknown.encode("7 4095\n0") == [7, 4095, 0]
    assert pieces(unknown, [7, 4095, 0]) == ["7", " 4095", " 0", ""]
    for wrong in ("4096", "-1", "word"):
        with pytest.raises(UserError, match=f"'{wrong}' is no token id"):
            unknown.encode(f"1 {wrong}")
