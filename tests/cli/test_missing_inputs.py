"""What a preset's data is missing is told by every command that needs it: all of it at once, each at its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.sweep import preparation

# Each trains, or reads the text, when nothing is missing.
READ_THE_DATA = {
    "train": ["train", "mine.toml"],
    "a group": ["train", "mine.toml", "--seeds", "2"],
    "data prepare": ["data", "prepare", "mine.toml"],
    "data inspect": ["data", "inspect", "mine.toml"],
    "sweep": ["sweep", "depth-width", "mine.toml", "--dry-run"],
    "sweep run": ["sweep", "run", "grid.toml", "--dry-run"],
    "tune": ["tune", "mine.toml", "--dry-run"],
    "study new": ["study", "new", "mine.toml", "--arms", "prenorm,attnres-block"],
    "verify --study": ["verify", "mine.toml", "--study"],
    "demo": ["demo", "--preset", "mine.toml"],
    "presets check": ["presets", "check", "mine.toml"],
}
NEED_A_VOCABULARY = {"plan": ["plan", "mine.toml", "--no-calibrate"], "bench": ["bench", "mine.toml", "--pairs", "1"]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands run; no step is timed there, because nothing is said of a price."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(preparation, "step_seconds", lambda presets, *_: dict.fromkeys(presets, 0.01))
    (tmp_path / "grid.toml").write_text('preset = "mine.toml"\n[axes]\n"train.weight_decay" = [0.1, 0.2]\n')
    return tmp_path


def errors_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The faults of a command that is refused, or that `presets check` finds."""
    assert run([*words, "--json"]) == 3
    streams = capsys.readouterr()
    if words[:2] == ["presets", "check"]:
        return list(json.loads(streams.out)["files"][0]["errors"])
    assert streams.out == ""
    answer = streams.err[streams.err.index("{") :]
    return list(json.loads(answer)["errors"])


def write(data: str, *, more: str = "") -> None:
    Path("mine.toml").write_text(f'extends = "cpu-tiny"\n{more}[data]\n{data}')


@pytest.mark.parametrize("words", READ_THE_DATA.values(), ids=READ_THE_DATA)
def test_everything_that_is_missing_is_told_at_once(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    write('packages = ["no_such_one", "nor_this"]\ntokenizer = "gone.tiktoken"\n')
    found = [(each["where"], each["what"]) for each in errors_of(words, capsys)]
    assert [where for where, _ in found] == ["mine.toml:3", "mine.toml:3", "mine.toml:4"]
    assert "'no_such_one'" in found[0][1]
    assert "'nor_this'" in found[1][1]
    assert "gone.tiktoken can't be read" in found[2][1]
    assert not Path("runs").exists()


@pytest.mark.parametrize("words", READ_THE_DATA.values(), ids=READ_THE_DATA)
def test_files_are_told_beside_what_is_wrong_elsewhere(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    write('corpus = "text"\nfiles = ["none/*.txt"]\n', more="[train]\nbeta1 = -1\n")
    errors = errors_of(words, capsys)
    assert [each["where"] for each in errors] == ["mine.toml:3", "mine.toml:6"]
    assert "no file matches" in errors[1]["what"]
    assert str(Path.cwd() / "none") in errors[1]["expected"]


@pytest.mark.parametrize("words", (READ_THE_DATA | NEED_A_VOCABULARY).values(), ids=READ_THE_DATA | NEED_A_VOCABULARY)
def test_an_unknown_tokenizer_is_one_of_the_faults(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever else is wrong in its section: its name depends on no other key."""
    write('tokenizer = "bpe-409"\nvalidation_fraction = 3\ncolour = 1\n', more='[observe]\nobservers = ["magnitude"]\n')
    errors = errors_of(words, capsys)
    assert [each["where"] for each in errors] == ["mine.toml:3", "mine.toml:5", "mine.toml:6", "mine.toml:7"]
    assert errors[0]["nearest"] == "magnitudes"
    assert errors[1]["what"] == 'There is no tokenizer "bpe-409".'
    assert errors[1]["nearest"] == "bpe-4096"
    assert errors[1]["expected"].endswith("or the path of a rank file (….tiktoken)")


@pytest.mark.parametrize("words", NEED_A_VOCABULARY.values(), ids=NEED_A_VOCABULARY)
def test_a_vocabulary_that_cannot_be_read_names_its_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    write('tokenizer = "gone.tiktoken"\n')
    (error,) = errors_of(words, capsys)
    assert error["where"] == "mine.toml:3"
    assert f"looked in {Path.cwd() / 'gone.tiktoken'}" in error["expected"]


@pytest.mark.parametrize(
    "words",
    [["train", "mine.toml"], ["sweep", "run", "grid.toml"], ["tune", "mine.toml"]],
    ids=" ".join,
)
def test_too_short_a_text_names_its_line_however_many_runs_read_it(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("short.txt").write_bytes(b"hello")
    write('corpus = "text"\nfiles = ["short.txt"]\n')
    (error,) = errors_of(words, capsys)
    assert "5 bytes in 1 document" in error["what"]
    assert error["where"] == "mine.toml:4"


def test_an_option_is_a_place_like_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    write("")
    (error,) = errors_of(["train", "mine.toml", "--set", 'data.packages=["no_such_one"]'], capsys)
    assert error["where"] == '--set data.packages=["no_such_one"]'


def test_a_bench_that_asks_no_tokenizer_needs_none(capsys: pytest.CaptureFixture[str]) -> None:
    write('packages = ["no_such_one"]\ntokenizer = "gone.tiktoken"\n')
    assert run(["bench", "mine.toml", "--pairs", "1", "--vocab-size", "64", "--set", "train.threads=1"]) == 0
    capsys.readouterr()


def test_the_tokenizer_that_is_to_be_trained_may_be_missing(capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(20):
        Path(f"{number}.txt").write_text(f"text number {number} has some words " * 20)
    write('corpus = "text"\nfiles = ["*.txt"]\ntokenizer = "own.tiktoken"\n')
    assert run(["data", "train-tokenizer", "mine.toml", "--size", "280", "-o", "own.tiktoken"]) == 0
    assert run(["presets", "check", "mine.toml"]) == 0
    write('corpus = "text"\nfiles = ["*.md"]\ntokenizer = "other.tiktoken"\n')
    capsys.readouterr()
    (error,) = errors_of(["data", "train-tokenizer", "mine.toml", "--size", "280", "-o", "other.tiktoken"], capsys)
    assert error["where"] == "mine.toml:4"


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["train", "x"], "PRESET"),
        (["train", "gone.toml"], "PRESET"),
        (["train", "cpu-tiny", "--overlay", "nope"], "--overlay nope"),
        (["train", "cpu-tiny", "--overlay", "./nope.toml"], "--overlay ./nope.toml"),
        (["plan", "cpu-tiny", "--overlay", "nope"], "--overlay nope"),
        (["sweep", "depth-width", "x", "--dry-run"], "PRESET"),
        (["sweep", "run", "grid.toml", "--dry-run"], "grid.toml"),
        (["tune", "x", "--dry-run"], "PRESET"),
        (["demo", "--preset", "x"], "--preset x"),
        (["presets", "show", "x"], "PRESET"),
        (["presets", "show", "gone.toml"], "PRESET"),
        (["presets", "cp", "x", "new.toml"], "PRESET"),
        (["presets", "diff", "x", "cpu-tiny"], "A"),
        (["presets", "diff", "cpu-tiny", "x"], "B"),
        (["presets", "check", "x"], "FILE"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_a_name_that_leads_nowhere_says_who_gave_it(
    words: list[str], where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [each["where"] for each in errors_of(words, capsys)] == [where]


def test_a_rank_file_of_the_command_line_is_missed_in_every_place_that_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.toml").write_text('extends = "cpu-tiny"\n')
    monkeypatch.chdir(tmp_path)
    words = ["plan", "mine/mine.toml", "--no-calibrate", "--set", 'data.tokenizer="nope.tiktoken"']
    (error,) = errors_of(words, capsys)
    assert error["where"] == '--set data.tokenizer="nope.tiktoken"'
    looked = f"looked in {tmp_path / 'nope.tiktoken'} and {folder / 'nope.tiktoken'}"
    assert looked in error["expected"]
    (folder / "mine.toml").write_text('extends = "cpu-tiny"\n[data]\ntokenizer = "nope.tiktoken"\n')
    (error,) = errors_of(words[:3], capsys)
    assert error["expected"].endswith(f"looked in {folder / 'nope.tiktoken'}")
