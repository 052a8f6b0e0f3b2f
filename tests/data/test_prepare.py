"""From files to token ids: nothing lost, nothing done twice, every fault said before training starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnres_cli.data import prepare as prepare_module
from attnres_cli.data import writing
from attnres_cli.data.cache import NotPrepared
from attnres_cli.data.corpora import synthetic, text
from attnres_cli.data.prepare import Dataset, find_prepared, prepare, prepare_corpus
from attnres_cli.data.split import Split
from attnres_cli.data.store import TokenStore
from attnres_cli.data.survey import choose_split
from attnres_cli.errors import UserError
from attnres_cli.preset.reading import Preset, preset_from_dict
from attnres_cli.shipped import shipped_folder

ROOT = Path(__file__).parents[2]
END_OF_TEXT = "<|endoftext|>"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    own = tmp_path / "texts"
    own.mkdir()
    return own


def prepared(folder: Path, cache: Path, **keys: Any) -> Dataset:
    section = text.Config(corpus="text", **({"files": ("*.txt",), "validation_fraction": 0.2} | keys))
    return prepare_corpus(section, folder, cache_folder=cache)


def write_texts(folder: Path, count: int = 40) -> list[str]:
    texts = [f"Document {number}:\r\n" + "naïve words and more words\n" * (1 + number % 3) for number in range(count)]
    for number, content in enumerate(texts):
        (folder / f"{number:03}.txt").write_bytes(content.encode())
    return texts


def decoded(dataset: Dataset, store: TokenStore) -> list[str]:
    """The documents of one side."""
    whole = dataset.decode(store.tokens[:].tolist())
    assert whole.endswith(END_OF_TEXT)
    return whole.split(END_OF_TEXT)[:-1]


@pytest.mark.parametrize("tokenizer", ["bytes", "bpe-4096"])
def test_every_document_is_on_one_side_unchanged(folder: Path, cache: Path, tokenizer: str) -> None:
    texts = write_texts(folder)
    dataset = prepared(folder, cache, tokenizer=tokenizer)
    train, validation = decoded(dataset, dataset.train), decoded(dataset, dataset.validation)
    assert sorted(train + validation) == sorted(texts)
    assert [content for content in texts if content in train] == train  # the corpus's order
    assert dataset.num_documents == 40
    for store, side in ((dataset.train, train), (dataset.validation, validation)):
        assert store.num_bytes == sum(len(content.encode()) for content in side)
        assert store.bytes_per_id is not None
        assert int(store.bytes_per_id[store.tokens[:]].sum()) == store.num_bytes
    share = (dataset.validation.num_bytes or 0) / ((dataset.train.num_bytes or 0) + (dataset.validation.num_bytes or 0))
    assert 0.2 <= share < 0.3
    assert dataset.notes == []


def test_the_split_is_that_of_the_text_not_of_the_tokenizer(folder: Path, cache: Path) -> None:
    write_texts(folder)
    by_bytes, by_pairs = prepared(folder, cache), prepared(folder, cache, tokenizer="bpe-4096")
    assert decoded(by_bytes, by_bytes.validation) == decoded(by_pairs, by_pairs.validation)


def test_second_time_nothing_is_tokenised(folder: Path, cache: Path) -> None:
    write_texts(folder)
    section = text.Config(corpus="text", files=("*.txt",))
    first = prepare_corpus(section, folder, cache_folder=cache)
    stages: set[str] = set()
    second = prepare_corpus(section, folder, cache_folder=cache, progress=lambda stage, done, total: stages.add(stage))
    assert "tokenising" not in stages
    assert (first.was_cached, second.was_cached) == (False, True)
    assert np.array_equal(first.train.tokens[:], second.train.tokens[:])
    assert isinstance(second.train.tokens, np.memmap)
    assert (first.data_hash, first.validation_hash) == (second.data_hash, second.validation_hash)


def test_what_makes_another_entry(folder: Path, cache: Path) -> None:
    write_texts(folder)
    hashes = [prepared(folder, cache).data_hash]
    hashes.append(prepared(folder, cache, tokenizer="bpe-4096").data_hash)
    hashes.append(prepared(folder, cache, validation_fraction=0.3).data_hash)
    (folder / "001.txt").write_text("changed")
    hashes.append(prepared(folder, cache).data_hash)
    assert len(set(hashes)) == 4
    (folder / "001.txt").rename(folder / "001b.txt")  # a name is not content
    assert prepared(folder, cache).data_hash == hashes[-1]


def test_only_cached(folder: Path, cache: Path) -> None:
    write_texts(folder)
    section = text.Config(corpus="text", files=("*.txt",))
    with pytest.raises(NotPrepared):
        prepare_corpus(section, folder, cache_folder=cache, only_cached=True)
    assert not cache.exists()


def test_batches_of_documents_do_not_show(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(folder)
    whole = prepared(folder, cache, tokenizer="bpe-4096")
    monkeypatch.setattr(writing, "_BATCH_BYTES_PER_CORE", 100)
    parts = prepared(folder, cache / "other", tokenizer="bpe-4096")
    assert not parts.was_cached
    assert np.array_equal(whole.train.tokens[:], parts.train.tokens[:])
    assert whole.validation_hash == parts.validation_hash


def test_one_document_is_cut_and_nothing_is_lost(folder: Path, cache: Path) -> None:
    lines = [f"line {number} of one long document\n" for number in range(3000)]
    (folder / "long.txt").write_text("".join(lines))
    dataset = prepared(folder, cache, validation_fraction=0.05)
    pieces = decoded(dataset, dataset.train) + decoded(dataset, dataset.validation)
    assert sorted("".join(pieces).splitlines(keepends=True)) == sorted(lines)
    assert 0.05 <= (dataset.validation.num_bytes or 0) / sum(map(len, lines)) < 0.08
    assert "few and long" in dataset.notes[0]
    # Neighbouring pieces on one side are one stretch of text, with one end of text.
    ends = int((dataset.train.tokens[:] == 256).sum())
    assert ends <= int((dataset.validation.tokens[:] == 256).sum()) + 1


def test_undecodable_bytes_are_counted_or_refused(folder: Path, cache: Path) -> None:
    write_texts(folder)
    (folder / "latin.txt").write_bytes("café, naïf\n".encode("latin-1"))
    dataset = prepared(folder, cache)
    assert dataset.replaced_bytes == 2
    assert dataset.notes == ["Bytes that are not UTF-8, replaced by U+FFFD: 2, in 1 of 41 documents."]
    assert "caf\ufffd, na\ufffdf\n" in decoded(dataset, dataset.train) + decoded(dataset, dataset.validation)
    with pytest.raises(UserError, match=r"latin\.txt is not UTF-8: byte e9 at offset 3"):
        prepared(folder, cache, undecodable="strict")  # although the replaced text is in the cache


def test_empty_documents_are_skipped_and_counted(folder: Path, cache: Path) -> None:
    write_texts(folder)
    (folder / "empty.txt").touch()
    dataset = prepared(folder, cache)
    assert dataset.num_documents == 40
    assert dataset.notes == ["Empty documents, skipped: 1."]


def test_nothing_but_empty_documents(folder: Path, cache: Path) -> None:
    (folder / "empty.txt").touch()
    with pytest.raises(UserError, match="corpus 'text' has no text"):
        prepared(folder, cache)


def test_short_text_can_not_be_split(folder: Path, cache: Path) -> None:
    (folder / "short.txt").write_text("a few words")
    with pytest.raises(UserError, match="can't be split"):
        prepared(folder, cache)


def test_corpus_that_changes_while_it_is_read(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(folder)

    def choose_and_change(*arguments: Any) -> Split:
        """Between reading and tokenising somebody else writes a file."""
        (folder / "039.txt").write_text("changed in the meantime")
        return choose_split(*arguments)

    monkeypatch.setattr(prepare_module, "choose_split", choose_and_change)
    with pytest.raises(UserError, match="changed while it was being read"):
        prepared(folder, cache)
    assert list((cache / "data").iterdir()) == []


def test_two_processes_at_once(folder: Path, cache: Path) -> None:
    write_texts(folder, 200)
    code = (
        "import sys; from pathlib import Path\n"
        "from attnres_cli.data.corpora.text import Config\n"
        "from attnres_cli.data.prepare import prepare_corpus\n"
        "section = Config(corpus='text', files=('*.txt',), tokenizer='bpe-4096')\n"
        f"print(prepare_corpus(section, Path({str(folder)!r}), cache_folder=Path({str(cache)!r})).validation_hash)\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    answers = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    assert len(answers) == 1
    assert [path.name[0] for path in (cache / "data").iterdir()] != ["."]
    assert len(list((cache / "data").iterdir())) == 1


def test_wide_ids_where_the_vocabulary_needs_them(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = synthetic.Config(corpus="synthetic", task="copy", documents=30, symbols=65000)
    assert prepare_corpus(section, folder, cache_folder=cache).train.tokens.dtype == np.dtype("<u2")
    monkeypatch.setattr(synthetic, "vocabulary_size", lambda config: 2**16 + 1)
    wide = prepare_corpus(section, folder, cache_folder=cache / "other")
    assert wide.train.tokens.dtype == np.dtype("<u4")


def test_token_documents_stay_whole_and_keep_their_masks(folder: Path, cache: Path) -> None:
    section = synthetic.Config(corpus="synthetic", task="recall", documents=300, length=5)
    dataset = prepare_corpus(section, folder, cache_folder=cache)
    size = section.document_tokens
    made = {document.tokens.tobytes(): document for document in synthetic.documents(section, folder)}
    seen = 0
    for store in (dataset.train, dataset.validation):
        assert store.loss_mask is not None
        assert store.num_bytes is None
        tokens = store.tokens[:].reshape(-1, size).astype(np.uint32)
        masks = store.loss_mask[:].reshape(-1, size)
        for row, mask in zip(tokens, masks, strict=True):
            assert np.array_equal(mask, made[row.tobytes()].loss_mask)
            seen += 1
    assert seen == 300
    assert dataset.document_tokens == size
    assert dataset.tokenizer_name == "none"


def test_validation_hash_of_synthetic_data_never_changes(cache: Path) -> None:
    section = synthetic.Config(corpus="synthetic", task="hops", documents=100, length=7)
    dataset = prepare_corpus(section, Path(), cache_folder=cache)
    assert dataset.validation_hash[:16] == GOLDEN_VALIDATION
    assert dataset.data_hash[:16] == GOLDEN_DATA


GOLDEN_VALIDATION = "e5fcaa3ae91b220d"
GOLDEN_DATA = "836d84e6609d5a94"


def preset_of(data: dict[str, Any], context_tokens: int) -> Preset:
    values = {
        "model": {"transformer_blocks": 1, "d_model": 16, "num_heads": 2, "context_tokens": context_tokens},
        "residual": {"scheme": "prenorm"},
        "data": data,
        "train": {
            "horizon_tokens": context_tokens, "tokens_per_step": context_tokens, "micro_batch_sequences": 1,
            "learning_rate": 1e-3,
        },
        "eval": {"tokens": context_tokens},
    }  # fmt: skip
    return preset_from_dict(values, "small")


PROSE = {"corpus": "text", "files": [str(shipped_folder("data_samples") / "prose.txt")], "validation_fraction": 0.1}


def test_prepare_a_preset(cache: Path) -> None:
    preset = preset_of(PROSE, 64)
    assert find_prepared(preset, cache_folder=cache) is None
    dataset = prepare(preset, cache_folder=cache)
    found = find_prepared(preset, cache_folder=cache)
    assert found is not None
    assert found.data_hash == dataset.data_hash
    assert found.was_cached


def test_looking_for_prepared_data_in_an_empty_cache_reads_no_corpus(cache: Path, folder: Path) -> None:
    """A plan asks, and must not wait for gigabytes to be hashed."""
    (folder / "latin.txt").write_bytes(b"caf\xe9 " * 100)
    data = {"corpus": "text", "files": [str(folder / "*.txt")], "undecodable": "strict"}
    with pytest.raises(UserError):  # it would be refused as soon as somebody read it
        prepare(preset_of(data, 16), cache_folder=cache)
    assert find_prepared(preset_of(data, 16), cache_folder=cache) is None
    data["files"] = [str(folder / "gone.txt"), str(folder / "*.md")]
    with pytest.raises(UserError) as caught:
        find_prepared(preset_of(data, 16), cache_folder=cache)
    assert len(caught.value.faults) == 2


@pytest.mark.parametrize(("context_tokens", "short"), [(2000, ["validation"]), (20_000, ["training", "validation"])])
def test_corpus_shorter_than_one_sequence(cache: Path, context_tokens: int, short: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        prepare(preset_of(PROSE, context_tokens), cache_folder=cache)
    assert [fault.what.split()[1] for fault in caught.value.faults] == short
    for fault in caught.value.faults:
        assert fault.where == "data.files, model.context_tokens"  # a preset without lines
        assert (fault.expected or "").startswith(f"more tokens than context_tokens = {context_tokens}; about ")
        assert "in the whole corpus, which has 5,836" in (fault.expected or "")


def test_token_files_with_validation_files_of_their_own_need_no_larger_corpus(cache: Path, folder: Path) -> None:
    """What is short is one named file; nothing follows for the sum of both."""
    for name, count in (("train", 4000), ("held-out", 50)):
        (folder / f"{name}.bin").write_bytes(bytes(2 * count))
    data = {
        "corpus": "tokens", "vocab_size": 9, "files": [str(folder / "train.bin")],
        "validation_files": [str(folder / "held-out.bin")],
    }  # fmt: skip
    with pytest.raises(UserError) as caught:
        prepare(preset_of(data, 64), cache_folder=cache)
    (fault,) = caught.value.faults
    assert fault.what.startswith("The validation part of the corpus has 50 tokens")
    assert fault.expected == "more tokens than context_tokens = 64"


def test_sequences_that_cut_documents_are_noted(cache: Path) -> None:
    data = {"corpus": "synthetic", "task": "copy", "documents": 100, "length": 7}  # 16 tokens each
    assert prepare(preset_of(data, 64), cache_folder=cache).notes == []
    assert "multiple of 16 cuts none" in prepare(preset_of(data, 40), cache_folder=cache).notes[0]
