from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import tiktoken.registry
from tiktoken.load import load_tiktoken_bpe
from tiktoken_ext import openai_public

from attnres_cli.data.rank_files import rank_file_text
from attnres_cli.data.tokenizers import load_tokenizer, vocabulary_size
from attnres_cli.data.tokenizers.tiktoken_names import VOCABULARIES, Vocabulary, VocabularyFile, cache_folder, is_cached
from attnres_cli.errors import UserError

GPT2_VOCAB = "6d1cbeee0f20b3d9449abfede4726ed8212e3aee"


def test_names_are_all_that_tiktoken_has() -> None:
    assert set(VOCABULARIES) == set(openai_public.ENCODING_CONSTRUCTORS)


def test_cached_names_are_tiktokens() -> None:
    names = {file.url.rsplit("/", 1)[1]: file.cached_name for each in VOCABULARIES.values() for file in each.files}
    assert names == {
        "vocab.bpe": GPT2_VOCAB,
        "encoder.json": "6c7ea1a7e38e3a7f062df639a5b80947f075ffe6",
        "r50k_base.tiktoken": "0ea1e91bbb3a60f729a8dc8f777fd2fc07cd8df4",
        "p50k_base.tiktoken": "ec7223a39ce59f226a68acc30dc1af2788490e15",
        "cl100k_base.tiktoken": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "o200k_base.tiktoken": "fb374d419588a4632f3f557e76b4b70aebbca790",
    }


def test_sizes_are_known_without_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert vocabulary_size("gpt2") == 50257
    assert vocabulary_size("o200k_harmony") == 201088


def test_missing_file_names_the_variable_and_the_choices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(UserError, match="vocabulary of 'gpt2' is not on this machine") as caught:
        load_tokenizer("gpt2")
    fault = caught.value.faults[0]
    assert fault.where is not None
    assert fault.expected is not None
    assert fault.hint is not None
    assert "TIKTOKEN_CACHE_DIR" in fault.where
    assert str(tmp_path / GPT2_VOCAB) in fault.where
    assert "vocab.bpe" in fault.expected
    assert '"bytes"' in fault.hint
    assert '"bpe-4096"' in fault.hint


def test_damaged_file_is_refused_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """tiktoken itself would delete it and download."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    damaged = tmp_path / VOCABULARIES["r50k_base"].files[0].cached_name
    damaged.write_bytes(b"half a fi")
    with pytest.raises(UserError, match="damaged"):
        load_tokenizer("r50k_base")
    assert damaged.read_bytes() == b"half a fi"


def test_cache_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert not is_cached("gpt2")
    with pytest.raises(UserError, match="switched off"):
        load_tokenizer("gpt2")


def test_folder_is_the_one_tiktoken_uses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(tmp_path / "gym"))
    assert cache_folder() == tmp_path / "gym"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_a_cached_vocabulary_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Through tiktoken's own loading, with a small vocabulary in place of the published ones."""
    url = "https://example.invalid/tiny.tiktoken"
    content = rank_file_text({bytes([byte]): byte for byte in range(256)} | {b"th": 256}).encode()
    file = VocabularyFile(url, hashlib.sha256(content).hexdigest())
    (tmp_path / file.cached_name).write_bytes(content)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))

    def construct() -> dict[str, object]:
        return {
            "name": "tiny",
            "pat_str": r"\S+|\s+",
            "mergeable_ranks": load_tiktoken_bpe(url, expected_hash=file.sha256),
            "special_tokens": {"<|endoftext|>": 260},
        }

    tiktoken.registry.list_encoding_names()  # fills the registry
    assert tiktoken.registry.ENCODING_CONSTRUCTORS is not None
    monkeypatch.setitem(tiktoken.registry.ENCODING_CONSTRUCTORS, "tiny", construct)
    monkeypatch.setitem(VOCABULARIES, "tiny", Vocabulary(261, (file,)))
    assert is_cached("tiny")
    tokenizer = load_tokenizer("tiny")
    (ids,) = tokenizer.encode_documents([b"that th"])
    assert ids.tolist() == [256, 97, 116, 32, 256]
    assert tokenizer.end_of_text == 260
    assert tokenizer.bytes_per_id[[256, 257, 260]].tolist() == [2, 0, 0]
    assert tokenizer.decode([256, 260]) == "th<|endoftext|>"
