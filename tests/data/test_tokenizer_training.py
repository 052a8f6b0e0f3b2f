from __future__ import annotations

import sys

import pytest
import tiktoken

from attnres_cli.data.byte_pairs import PATTERN
from attnres_cli.data.tokenizer_training import train_ranks
from attnres_cli.errors import UserError

TEXTS = ["the cat sat on the mat, and the dog sat on the cat\n" * 5, "naïve cafés — and the cat\r\n" * 5]


def test_ranks_encode_what_they_learned() -> None:
    ranks = train_ranks(TEXTS, 280)
    assert sorted(ranks.values()) == list(range(279))
    encoding = tiktoken.Encoding("x", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 279})
    for text in TEXTS:
        ids = encoding.encode_ordinary(text)
        assert encoding.decode(ids) == text
        assert len(ids) < 0.6 * len(text.encode())


def test_training_again_gives_the_same() -> None:
    assert train_ranks(TEXTS, 280) == train_ranks(TEXTS, 280)


def test_more_tokens_than_the_texts_have() -> None:
    with pytest.raises(UserError, match="too few repetitions for 4,096 tokens") as caught:
        train_ranks(TEXTS, 4096)
    expected = caught.value.faults[0].expected
    assert expected is not None
    possible = int(expected.split()[2].rstrip(","))
    assert len(train_ranks(TEXTS, possible)) == possible - 1


def test_size_below_the_bytes() -> None:
    with pytest.raises(UserError, match="256 tokens is too small"):
        train_ranks(TEXTS, 256)


def test_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rustbpe", None)  # what Python itself does for a module that can't be imported
    with pytest.raises(UserError, match="needs the package rustbpe") as caught:
        train_ranks(TEXTS, 280)
    assert caught.value.faults[0].hint == "pip install 'attnres-cli[tokenizer]'"
