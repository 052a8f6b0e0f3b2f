from __future__ import annotations

import numpy as np
import tiktoken
from hypothesis import example, given
from hypothesis import strategies as st

from attnres_cli.data import byte_pairs
from attnres_cli.data.byte_pairs import bytes_per_id, decode, encode_on_all_cores
from attnres_cli.data.tokenizers import load_tokenizer

WORDS = st.lists(
    st.sampled_from(
        [
            "the",
            " the",
            "  ",
            "\n",
            "\r\n",
            "\n\n",
            " x",
            "x",
            "'s",
            " don't",
            "123",
            ".",
            "..\n",
            "\t",
            "é",
            " ",
            "_",
            "<|endoftext|>",
        ]
    ),
    max_size=60,
).map("".join)


def shipped_encoding() -> tiktoken.Encoding:
    encoding = load_tokenizer("bpe-4096")._encoding  # type: ignore[attr-defined]
    assert isinstance(encoding, tiktoken.Encoding)
    return encoding


ENCODING = shipped_encoding()


@given(st.lists(st.one_of(WORDS, st.text(max_size=40)), max_size=5), st.integers(1, 8))
@example(["for x in range(10):\n    print(x)\n" * 30], 16)
def test_pieces_for_the_threads_have_the_tokens_of_the_whole(texts: list[str], characters: int) -> None:
    whole = byte_pairs._CHARACTERS_PER_TASK
    byte_pairs._CHARACTERS_PER_TASK = characters
    try:
        encoded = encode_on_all_cores(ENCODING, [text.encode() for text in texts])
    finally:
        byte_pairs._CHARACTERS_PER_TASK = whole
    assert [ids.tolist() for ids in encoded] == [ENCODING.encode_ordinary(text) for text in texts]
    assert all(ids.dtype == np.uint32 for ids in encoded)


def test_a_long_text_is_cut_for_the_threads() -> None:
    text = "some words that repeat, again and again\r\n" * 20_000
    assert len(list(byte_pairs._pieces(text))) > 2
    (ids,) = encode_on_all_cores(ENCODING, [text.encode()])
    assert ids.tolist() == ENCODING.encode_ordinary(text)


def test_specials_and_gaps_are_no_bytes() -> None:
    encoding = tiktoken.Encoding(
        "gap",
        pat_str=byte_pairs.PATTERN,
        mergeable_ranks={bytes([byte]): byte for byte in range(256)},
        special_tokens={"<|endoftext|>": 258},
    )
    assert bytes_per_id(encoding, 259).tolist() == [1] * 256 + [0, 0, 0]
    assert decode(encoding, [104, 105, 257, 258]) == "hi\N{REPLACEMENT CHARACTER}<|endoftext|>"
