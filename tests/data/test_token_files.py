from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnres_cli.data.cache import NotPrepared
from attnres_cli.data.corpora.tokens import Config
from attnres_cli.data.prepare import Dataset, prepare_corpus
from attnres_cli.data.store import JoinedArrays
from attnres_cli.errors import UserError

LONG_AGO = 1_600_000_000


def save(path: Path, ids: np.ndarray) -> None:
    path.write_bytes(ids.tobytes())
    os.utime(path, (LONG_AGO, LONG_AGO))


def opened(folder: Path, cache: Path, **keys: Any) -> Dataset:
    section = Config(corpus="tokens", **({"files": ("*.bin",), "vocab_size": 1000, "validation_fraction": 0.1} | keys))
    return prepare_corpus(section, folder, cache_folder=cache)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_files_stay_where_they_are(tmp_path: Path, cache: Path) -> None:
    save(tmp_path / "train.bin", np.arange(300, dtype="<u2"))
    save(tmp_path / "val.bin", np.arange(300, 340, dtype="<u2"))
    dataset = opened(tmp_path, cache, files=("train.bin",), validation_files=("val.bin",))
    assert isinstance(dataset.train.tokens, np.memmap)
    assert Path(str(dataset.train.tokens.filename)) == tmp_path / "train.bin"
    assert dataset.validation.tokens[:].tolist() == list(range(300, 340))
    assert not (cache / "data").exists()
    assert dataset.train.num_bytes is None
    assert dataset.notes == []


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.99])
def test_without_validation_files_the_end_is_held_out(tmp_path: Path, cache: Path, fraction: float) -> None:
    for number in range(4):
        save(tmp_path / f"{number}.bin", np.arange(number * 50, number * 50 + 50, dtype="<u2"))
    dataset = opened(tmp_path, cache, validation_fraction=fraction)
    border = 200 - round(200 * fraction)
    assert dataset.train.tokens[:].tolist() == list(range(border))
    assert dataset.validation.tokens[:].tolist() == list(range(border, 200))
    assert "held out" in dataset.notes[0]
    if fraction == 0.1:
        assert isinstance(dataset.train.tokens, JoinedArrays)


def test_files_are_read_through_once(tmp_path: Path, cache: Path) -> None:
    save(tmp_path / "a.bin", np.arange(300, dtype="<u2"))
    first, second = opened(tmp_path, cache), opened(tmp_path, cache)
    assert not first.was_cached
    assert second.was_cached
    assert first.data_hash == second.data_hash
    (tmp_path / "a.bin").write_bytes(np.arange(1, 301, dtype="<u2").tobytes())
    changed = opened(tmp_path, cache)
    assert not changed.was_cached
    assert changed.data_hash != first.data_hash


def test_a_file_written_just_now_is_not_trusted(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "a.bin").write_bytes(np.arange(300, dtype="<u2").tobytes())
    opened(tmp_path, cache)
    assert not opened(tmp_path, cache).was_cached


def test_hashes_follow_content_not_names(tmp_path: Path, cache: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    save(tmp_path / "one" / "a.bin", np.arange(300, dtype="<u2"))
    save(tmp_path / "two" / "b.bin", np.arange(300, dtype="<u2"))
    one, two = opened(tmp_path / "one", cache), opened(tmp_path / "two", cache)
    assert (one.data_hash, one.validation_hash) == (two.data_hash, two.validation_hash)
    assert opened(tmp_path / "one", cache, validation_fraction=0.2).validation_hash != one.validation_hash


def test_only_cached(tmp_path: Path, cache: Path) -> None:
    save(tmp_path / "a.bin", np.arange(300, dtype="<u2"))
    section = Config(corpus="tokens", files=("a.bin",), vocab_size=300)
    with pytest.raises(NotPrepared):
        prepare_corpus(section, tmp_path, cache_folder=cache, only_cached=True)
    prepare_corpus(section, tmp_path, cache_folder=cache)
    prepare_corpus(section, tmp_path, cache_folder=cache, only_cached=True)


def test_id_outside_the_vocabulary(tmp_path: Path, cache: Path) -> None:
    save(tmp_path / "a.bin", np.array([3, 299, 7, 299], dtype="<u2"))
    with pytest.raises(UserError, match=r"holds the id 299 \(token 1\); data\.vocab_size is 299"):
        opened(tmp_path, cache, vocab_size=299)
    opened(tmp_path, cache, vocab_size=300)


def test_with_the_tokenizer_that_made_them(tmp_path: Path, cache: Path) -> None:
    save(tmp_path / "a.bin", np.frombuffer(b"some words to read", dtype=np.uint8).astype("<u2"))
    dataset = opened(tmp_path, cache, tokenizer="bytes", vocab_size=300)
    assert dataset.decode(dataset.train.tokens[:10].tolist()) == "some words"
    assert dataset.vocab_size == 300
    assert dataset.train.bytes_per_id is not None
    assert dataset.train.bytes_per_id.shape == (300,)
    with pytest.raises(UserError, match=r"'bytes' has 257 ids, data\.vocab_size is 256"):
        opened(tmp_path, cache, tokenizer="bytes", vocab_size=256)


def test_a_single_token(tmp_path: Path, cache: Path) -> None:
    save(tmp_path / "a.bin", np.array([3], dtype="<u2"))
    with pytest.raises(UserError, match="a single token"):
        opened(tmp_path, cache)
