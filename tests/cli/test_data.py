from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import main, run
from attnres_cli.data import writing
from attnres_cli.shipped import shipped_folder
from attnres_cli.train.stopping import stop_signals

SAMPLES = shipped_folder("data_samples")

PRESET = """
[model]
transformer_blocks = 1
d_model = 16
num_heads = 2
context_tokens = 32
[residual]
scheme = "prenorm"
[data]
corpus = "text"
files = ["texts/*.txt"]
validation_fraction = 0.2
[train]
horizon_tokens = 6400
tokens_per_step = 64
micro_batch_sequences = 2
learning_rate = 1e-3
[eval]
tokens = 64
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a preset and twenty small texts, and an empty cache."""
    (tmp_path / "texts").mkdir()
    for number in range(20):
        (tmp_path / "texts" / f"{number:02}.txt").write_text(f"Text number {number} has a few words in it.\n" * 4)
    (tmp_path / "mine.toml").write_text(PRESET)
    monkeypatch.setenv("ATTNRES_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(["data", *words])
    streams = capsys.readouterr()
    assert "Traceback" not in streams.err
    return code, streams.out, streams.err


def call_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code, out, err = call(capsys, *words, "--json")
    assert code == 0, err
    answer: dict[str, Any] = json.loads(out)
    return answer


def test_prepare_then_find_it_prepared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "prepare", "mine.toml")
    assert code == 0
    assert out.startswith("text (bytes) prepared: ")
    assert err == ""
    _, out, _ = call(capsys, "prepare", "mine.toml")
    assert out.startswith("text (bytes) was in the cache: ")


def test_prepare_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = call_json(capsys, "prepare", "mine.toml", "--set", 'data.tokenizer="bpe-4096"')
    assert answer["schema"] == "attnres.data.prepare/1"
    assert answer["documents"] == 20
    assert answer["vocab_size"] == 4096
    training, validation = answer["split"]["training"], answer["split"]["validation"]
    assert training["text_bytes"] + validation["text_bytes"] == sum(
        path.stat().st_size for path in (folder / "texts").iterdir()
    )
    assert validation["bytes_per_token"] == validation["text_bytes"] / validation["tokens"]
    assert answer["windows"] == (training["tokens"] - 1) // 32
    assert answer["epochs"] == 200 / answer["windows"]  # 6400 tokens are 100 steps of 2 sequences
    assert answer["was_cached"] is False


def test_inspect(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = call_json(capsys, "inspect", "mine.toml")
    code, out, _ = call(capsys, "inspect", "mine.toml")
    assert code == 0
    for expected in (
        "documents 20, vocabulary 257, tokenizer bytes",
        answer["data_hash"],
        answer["validation_hash"],
        f"{answer['epochs']:.2f} epochs of {answer['windows']:,} sequences of 32 tokens",
        f"{answer['split']['validation']['tokens']:,}",
        "bytes/token",
        "has a few words in it.\\nText number",
    ):
        assert expected in out
    assert "\x1b" not in out


def test_inspect_a_synthetic_corpus(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = ('data.corpus="synthetic"', 'data.task="hops"', "data.length=7", "data.documents=500")
    code, out, _ = call(capsys, "inspect", "mine.toml", *(word for each in values for word in ("--set", each)))
    assert code == 0
    assert "vocabulary 67, tokenizer none" in out
    assert "counted" in out
    assert "bytes/token" not in out


def test_notes_are_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "texts" / "latin.txt").write_bytes(b"caf\xe9\n")
    _, out, err = call(capsys, "prepare", "mine.toml")
    assert "note: Bytes that are not UTF-8, replaced by U+FFFD: 1, in 1 of 21 documents." in err
    assert "UTF-8" not in out
    _, out, _ = call(capsys, "inspect", "mine.toml")
    assert "not UTF-8" in out


@pytest.fixture
def own_handlers() -> Iterator[None]:
    """The program's entry point sets handlers; in a process that goes on, those before it come back."""
    before = [(number, signal.getsignal(number)) for number in stop_signals()]
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.usefixtures("own_handlers")
@pytest.mark.parametrize("number", stop_signals())
@pytest.mark.parametrize("swallowed", [False, True], ids=["heard", "swallowed"])
def test_a_signal_while_tokenising_leaves_nothing_half_written(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    swallowed: bool,
) -> None:
    """It comes when the files of the entry have been begun; a library that is being loaded may swallow it."""
    begun: list[str] = []
    original = writing._batches

    def batches(*given: Any) -> Any:
        begun.extend(path.name for path in (folder / "cache" / "data").rglob("*.bin"))
        with suppress(KeyboardInterrupt) if swallowed else nullcontext():
            os.kill(os.getpid(), number)
        yield from original(*given)

    monkeypatch.setattr(sys, "argv", ["attnres", "data", "prepare", "mine.toml"])
    with monkeypatch.context() as patch:
        patch.setattr(writing, "_batches", batches)
        with pytest.raises(SystemExit) as ending:
            main()
    assert ending.value.code == 130
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.splitlines() == [
        "Interrupted while preparing the data: no data prepared in part is kept.",
        "start again with: attnres data prepare mine.toml",
    ]
    assert "train.bin" in begun
    assert list((folder / "cache" / "data").iterdir()) == []
    code, out, _ = call(capsys, "prepare", "mine.toml")
    assert code == 0
    assert out.startswith("text (bytes) prepared: ")


LONG_SEQUENCES = ["model.context_tokens=2048", "train.tokens_per_step=2048", "train.micro_batch_sequences=1"]
TEXT_AS_TOKENS = ['data.corpus="tokens"', 'data.files=["texts/00.txt"]', "data.validation_fraction=0.5"]


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (['data.files=["nothing/*.txt"]'], "no file matches"),
        (['data.files=["texts"]'], "names the folder"),
        (['data.tokenizer="cl100k_base"'], "TIKTOKEN_CACHE_DIR"),
        (['data.tokenizer="byte"'], "nearest: bytes"),
        (['data.corpus="stdlb"'], "nearest: stdlib"),
        ([*LONG_SEQUENCES, "eval.tokens=2048"], "validation part"),
        (['data.corpus="jsonl"', 'data.files=["texts/00.txt"]'], "00.txt:1"),
        ([*TEXT_AS_TOKENS, "data.vocab_size=9"], "holds the id"),
        (['data.corpus="synthetic"', 'data.task="copy"', "data.length=31"], "64 tokens does not fit"),
        (['data.corpus="stdlib"', 'data.packages=["no_such_package"]'], "no installed package"),
    ],
)
def test_faults_are_sentences_with_exit_code_3(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, sets: list[str], message: str
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder / "no-vocabularies"))
    code, out, err = call(capsys, "prepare", "mine.toml", *(word for each in sets for word in ("--set", each)))
    assert code == 3, err
    assert out == ""
    assert message in err


def errors_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """The faults that a command of `attnres data` reports."""
    assert run(["data", *words, "--json"]) == 3
    return list(json.loads(capsys.readouterr().err)["errors"])


def test_a_text_that_cannot_be_split_is_told_with_its_size_and_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "short.txt").write_bytes(b"hello")
    (folder / "over.toml").write_text('extends = "mine.toml"\n[data]\nfiles = ["short.txt"]\n')
    (error,) = errors_of(capsys, "prepare", "over.toml")
    assert error["what"].startswith("The corpus has 5 bytes in 1 document and can't be split")
    assert error["where"] == "over.toml:3"
    assert error["expected"] == "at least two different documents, or one of more than 256 bytes"
    assert "stdlib" in error["hint"]
    (error,) = errors_of(capsys, "prepare", "mine.toml", "--set", "data.files=[short.txt]")
    assert error["where"] == "--set data.files=[short.txt]"
    # What is asked for is enough: a text of more than 256 bytes is cut.
    (folder / "short.txt").write_text("a line of text\n" * 3 + "b" * 250)
    assert run(["data", "prepare", "over.toml"]) == 0
    capsys.readouterr()


def test_a_text_shorter_than_a_sequence_is_told_with_its_tokens_and_both_lines(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("a", "hello world 123"), ("b", "hello worlds 1234 56")):
        (folder / f"{name}.txt").write_text(text)
    (folder / "over.toml").write_text('extends = "mine.toml"\n[data]\nfiles = ["a.txt", "b.txt"]\n')
    errors = errors_of(capsys, "prepare", "over.toml")
    assert [each["where"] for each in errors] == ["over.toml:3, mine.toml:6"] * 2
    tokens = sorted(int(each["what"].split(" has ")[1].split()[0]) for each in errors)
    assert tokens == [16, 21]  # an end of text each
    for each in errors:
        assert each["expected"].startswith("more tokens than context_tokens = 32; about ")
        assert each["expected"].endswith("in the whole corpus, which has 37")


def test_a_synthetic_corpus_of_one_document_is_no_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ('data.corpus="synthetic"', 'data.task="copy"', "data.documents=1", "data.length=3")
    (error,) = errors_of(capsys, "prepare", "mine.toml", *(word for each in words for word in ("--set", each)))
    assert error["what"].startswith("The corpus has 1 document, all alike")
    assert error["where"] == "--set data.documents=1"


def test_a_corpus_of_empty_files_names_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty").mkdir()
    (folder / "empty" / "a.txt").touch()
    (error,) = errors_of(capsys, "prepare", "mine.toml", "--set", 'data.files=["empty/*.txt"]')
    assert "has no text" in error["what"]
    assert error["where"] == '--set data.files=["empty/*.txt"]'


def test_a_vocabulary_smaller_than_the_tokenizers_names_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ids.bin").write_bytes(bytes(2000))
    (folder / "over.toml").write_text(
        'extends = "mine.toml"\n[data]\ncorpus = "tokens"\nfiles = ["ids.bin"]\ntokenizer = "bytes"\nvocab_size = 9\n'
    )
    (error,) = errors_of(capsys, "prepare", "over.toml")
    assert "has 257 ids" in error["what"]
    assert error["where"] == "over.toml:6"


def test_strict_names_file_and_offset(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "texts" / "latin.txt").write_bytes(b"caf\xe9\n")
    code, _, err = call(capsys, "inspect", "mine.toml", "--set", 'data.undecodable="strict"')
    assert code == 3
    assert "latin.txt is not UTF-8: byte e9 at offset 3" in err


def test_train_a_tokenizer_and_use_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--text", str(SAMPLES / "*.txt"), "--size", "400", "-o", "own.tiktoken")
    code, out, _ = call(capsys, "train-tokenizer", *words)
    assert code == 0
    assert out.startswith("own.tiktoken: 400 tokens, learned from ")
    answer = call_json(capsys, "prepare", "mine.toml", "--set", 'data.tokenizer="own.tiktoken"')
    assert answer["vocab_size"] == 400
    assert answer["tokenizer"] == "own.tiktoken"
    assert answer["split"]["training"]["bytes_per_token"] > 1.5


def test_train_a_tokenizer_on_a_preset(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = call_json(capsys, "train-tokenizer", "mine.toml", "--size", "280", "--output", "own.tiktoken")
    assert answer["documents"] == 20
    assert answer["text_bytes"] == sum(path.stat().st_size for path in (folder / "texts").iterdir())
    assert len((folder / "own.tiktoken").read_text().splitlines()) == 279


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["-o", "x"], 2, "Learn from what?"),
        (["--corpus", "stdlib"], 2, "--output is missing"),
        (["--corpus", "stdlib", "--set", "data.x=1", "-o", "x"], 2, "name one"),
        (["--corpus", "jsonl", "-o", "x"], 3, "needs keys: files"),
        (["--corpus", "stdlb", "-o", "x"], 3, "nearest: stdlib"),
        (["mine.toml", "--size", "100", "-o", "x"], 3, "at least 257"),
        (["mine.toml", "--size", "4096", "-o", "x"], 3, "too few repetitions"),
        (["mine.toml", "--size", "280", "-o", "no/folder/x"], 3, "mkdir -p no/folder"),
        (["mine.toml", "--set", 'data.corpus="synthetic"', "--set", 'data.task="copy"', "-o", "x"], 3, "holds no text"),
    ],
)
def test_train_tokenizer_faults(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str
) -> None:
    got, out, err = call(capsys, "train-tokenizer", *words)
    assert (got, out) == (code, ""), err
    assert message in err
    assert not (folder / "x").exists()


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--help")
    assert code == 0
    assert all(name in out for name in ("prepare", "inspect", "train-tokenizer"))


def test_a_file_of_wide_ids_that_is_read_as_narrow_ones_is_noted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import numpy as np

    (folder / "wide.bin").write_bytes((np.arange(2000, dtype="<u4") % 47_000 + 3_000).tobytes())
    said = 'extends = "mine.toml"\n[data]\ncorpus = "tokens"\nfiles = ["wide.bin"]\nvocab_size = 50257\n'
    (folder / "ids.toml").write_text(said)
    note = 'wide.bin is 0, as when a file of uint32 ids is read as uint16: data.dtype = "uint32"'
    code, out, _ = call(capsys, "inspect", "ids.toml")
    assert (code, note in " ".join(out.split())) == (0, True)
    assert run(["train", "ids.toml", "--name", "narrow", "--set", "train.horizon_tokens=64"]) == 0
    assert note in " ".join(capsys.readouterr().err.split())
    code, out, _ = call(capsys, "inspect", "ids.toml", "--set", "data.dtype=uint32")
    assert (code, "Every second id" in out) == (0, False)
    sample = next(line for line in out.splitlines() if line.endswith("…"))
    ids = [int(each) for each in sample.split()[:-1]]
    assert ids == list(range(ids[0], ids[0] + len(ids))), "no id is cut"
