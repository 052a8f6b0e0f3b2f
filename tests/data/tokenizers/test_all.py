"""What every tokenizer promises, over every name that is known and available here."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.data.tokenizers import Tokenizer, known_names, load_tokenizer, vocabulary_size
from attnres_cli.data.tokenizers.tiktoken_names import VOCABULARIES, is_cached
from attnres_cli.errors import UserError
from attnres_cli.shipped import shipped_folder

AVAILABLE = [name for name in known_names() if name not in VOCABULARIES or is_cached(name)]
RANK_FILE = shipped_folder("data_samples") / "tokenizers" / "bpe-4096.tiktoken"
TOKENIZERS: dict[str, Tokenizer] = {name: load_tokenizer(name) for name in [*AVAILABLE, str(RANK_FILE)]}

every_tokenizer = pytest.mark.parametrize("name", TOKENIZERS, ids=lambda name: Path(name).name)


@every_tokenizer
@given(texts=st.lists(st.text(max_size=60), max_size=4))
def test_nothing_is_lost(name: str, texts: list[str]) -> None:
    tokenizer = TOKENIZERS[name]
    encoded = tokenizer.encode_documents([text.encode() for text in texts])
    assert [tokenizer.decode(ids.tolist()) for ids in encoded] == texts
    for ids, text in zip(encoded, texts, strict=True):
        assert ids.dtype == np.uint32
        assert int(tokenizer.bytes_per_id[ids].sum()) == len(text.encode())
        assert b"".join(tokenizer.token_bytes(token) for token in ids.tolist()) == text.encode()
        assert not (ids == tokenizer.end_of_text).any()


@every_tokenizer
def test_end_of_text_is_a_token_of_its_own(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    (spelt,) = tokenizer.encode_documents([b"a<|endoftext|>b"])
    assert tokenizer.end_of_text not in spelt.tolist()
    assert tokenizer.decode([*spelt.tolist(), tokenizer.end_of_text]) == "a<|endoftext|>b<|endoftext|>"
    assert tokenizer.token_bytes(tokenizer.end_of_text) == b"<|endoftext|>"
    assert tokenizer.end_of_text < tokenizer.vocab_size
    assert tokenizer.bytes_per_id.shape == (tokenizer.vocab_size,)
    assert tokenizer.bytes_per_id[tokenizer.end_of_text] == 0


@every_tokenizer
def test_vocabulary_size_without_loading(name: str) -> None:
    assert vocabulary_size(name) == TOKENIZERS[name].vocab_size


def test_digests_differ() -> None:
    digests = {name: tokenizer.digest for name, tokenizer in TOKENIZERS.items() if name != str(RANK_FILE)}
    assert len(set(digests.values())) == len(digests)
    assert TOKENIZERS[str(RANK_FILE)].digest == TOKENIZERS["bpe-4096"].digest


def test_shipped_vocabulary() -> None:
    tokenizer = TOKENIZERS["bpe-4096"]
    assert tokenizer.vocab_size == 4096
    assert RANK_FILE.stat().st_size < 60_000
    prose = (shipped_folder("data_samples") / "prose.txt").read_bytes()
    (ids,) = tokenizer.encode_documents([prose])
    assert len(prose) / len(ids) > 2.8
    assert tokenizer.encode_documents([b"def __init__(self):\n        return None\n"])[0].tolist() == GOLDEN_IDS


GOLDEN_IDS = [315, 460, 586, 516, 273, 300, 263, 330, 377, 10]


def test_paths_are_relative_to_the_folder_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "mine.tiktoken").write_bytes(RANK_FILE.read_bytes())
    assert load_tokenizer("mine.tiktoken", tmp_path / "here").vocab_size == 4096
    assert load_tokenizer("here/mine.tiktoken", tmp_path).name == "mine.tiktoken"
    monkeypatch.chdir(tmp_path)
    assert vocabulary_size("./here/mine.tiktoken") == 4096


def test_unknown_name_says_what_there_is() -> None:
    with pytest.raises(UserError, match="no tokenizer 'bpe-4069'") as caught:
        load_tokenizer("bpe-4069")
    fault = caught.value.faults[0]
    assert fault.nearest == "bpe-4096"
    assert fault.expected is not None
    assert "bytes" in fault.expected
    assert "gpt2" in fault.expected


def test_no_tokenizer_reaches_for_the_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    for name in known_names():
        if name in VOCABULARIES:
            with pytest.raises(UserError):
                load_tokenizer(name)
        else:
            load_tokenizer(name).encode_documents([b"text"])
