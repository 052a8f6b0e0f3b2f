"""stdout and stderr that nobody reads any more, or that were closed from the start."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import PIPE_CLOSED
from attnres_cli.errors import ExitCode
from attnres_cli.runs.directory import RunDirectory
from tests import forked
from tests.small import small_preset

TRAIN = ["train", "./small.toml", "--name", "a"]


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    size: dict[str, Any] = {"train.horizon_tokens": 64 * 4, "data.documents": 100, "eval.every_steps": 1}
    Path("small.toml").write_text(small_preset(**size).to_toml())


def without(*names: str) -> str:
    """The program with these streams closed from the start, as with `>&-`."""
    numbers = {"stdin": 0, "stdout": 1, "stderr": 2}
    closed = "".join(f"os.close({numbers[name]}); sys.{name} = None\n" for name in names)
    return f"import os, sys\n{closed}{forked.PROGRAM}"


def unread() -> int:
    """A pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def ended(*words: str, program: str = forked.PROGRAM, **streams: Any) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    with forked.start(*words, program=program, text=True, **streams) as child:
        out, err = child.communicate(timeout=300)
    return child.returncode, out or "", err or ""


def test_a_training_goes_on_when_nobody_reads_its_progress() -> None:
    gone = unread()
    code, said, _ = ended(*TRAIN, stdout=subprocess.PIPE, stderr=gone)
    os.close(gone)
    assert code == 0
    assert said.endswith("run runs/a finished at step 4\n")
    assert RunDirectory("runs/a").checkpoints()


def test_a_result_that_nobody_reads_is_the_only_thing_lost() -> None:
    gone = unread()
    assert ended(*TRAIN, stdout=gone, stderr=gone)[0] == PIPE_CLOSED
    os.close(gone)
    assert RunDirectory("runs/a").status == "finished"
    assert RunDirectory("runs/a").checkpoints()


def test_a_group_goes_on_when_nobody_reads_its_progress() -> None:
    gone = unread()
    code, said, _ = ended(
        "train", "./small.toml", "--seeds", "2", "--name", "g", "--jobs", "1", stdout=subprocess.PIPE, stderr=gone
    )
    os.close(gone)
    assert code == 0
    assert "prenorm" in said


def test_a_training_needs_no_stderr() -> None:
    code, said, _ = ended(*TRAIN, program=without("stdin", "stderr"), stdout=subprocess.PIPE)
    assert code == 0
    assert said.endswith("run runs/a finished at step 4\n")


@pytest.mark.parametrize("words", [["presets", "ls"], ["presets", "ls", "--json"], ["--version"], ["--help"]])
def test_a_result_needs_stdout(words: list[str]) -> None:
    code, _, said = ended(*words, program=without("stdout"), stderr=subprocess.PIPE)
    assert code == ExitCode.INPUT
    assert "The result cannot be written to stdout: it is closed." in said
    assert "Traceback" not in said


def test_without_stdout_a_command_without_a_result_ends_as_ever() -> None:
    assert ended("runs", "ls", program=without("stdout"), stderr=subprocess.PIPE)[::2] == (
        0, "There are no runs in runs. `attnres train cpu-tiny` makes one.\n"
    )  # fmt: skip
    assert ended("runs", "ls", program=without("stdin", "stdout", "stderr"))[0] == 0
    assert ended("no-such", program=without("stdin", "stdout", "stderr"))[0] == ExitCode.USAGE


def test_a_training_without_stdout_writes_its_files_whole() -> None:
    """Its first file does not get the number of stdout, which everything that is printed would end in."""
    assert ended(*TRAIN, program=without("stdout"), stderr=subprocess.PIPE)[0] == ExitCode.INPUT
    assert RunDirectory("runs/a").status == "finished"
