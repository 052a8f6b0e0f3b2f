"""A disk that is full, or a folder that may not be written: one sentence, what is kept, and how to go on."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from attnres_cli.runs import creation, directory, lookup
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.train import checkpoint
from tests import forked
from tests.small import small_preset

TRAIN = ["train", "./small.toml", "--name", "a"]
FULL = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    size: dict[str, Any] = {"train.horizon_tokens": 64 * 4, "data.documents": 100, "train.checkpoint_every_steps": 2}
    Path("small.toml").write_text(small_preset(**size).to_toml())


def refusing(error: Exception, original: Callable[..., Any], after: int = 0) -> Callable[..., Any]:
    """`original`, which raises `error` instead after so many calls."""
    calls: list[None] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        if len(calls) > after:
            raise error
        return original(*args, **kwargs)

    return call


def refusing_to_write(error: Exception, original: Callable[..., Any]) -> Callable[..., Any]:
    """`Path.open` of a file system that can only be read."""

    def open_(path: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if set(mode) & set("wax+"):
            raise error
        return original(path, mode, *args, **kwargs)

    return open_


def test_a_full_disk_at_a_checkpoint_stops_a_run_that_can_be_resumed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first checkpoint, two files, has room; the second has not."""
    with monkeypatch.context() as disk:
        disk.setattr(checkpoint, "save_file", refusing(FULL, checkpoint.save_file, after=3))
        assert run(TRAIN) == ExitCode.INPUT
    what = "There is no room left in 'runs/a'. The run stopped after step 4; checkpoint step-000002 is whole."
    assert capsys.readouterr().err.endswith(
        f"error: {what}\n  where: runs/a\n"
        "  try: make room on that disk, then go on with: attnres train --resume runs/a\n"
    )
    found = RunDirectory("runs/a")
    assert (found.status, found.read_state()["error"]) == ("failed", what)
    assert [path.name for path in found.checkpoints_folder.iterdir()] == ["step-000002"]  # nothing takes room in vain
    assert run(["runs", "show", "a"]) == 0
    assert what in capsys.readouterr().out
    assert run(["train", "--resume", "a"]) == 0
    assert found.status == "finished"


@pytest.mark.parametrize(
    ("number", "what"),
    [
        (errno.ENOSPC, "There is no room left in 'runs/a'."),
        (errno.EDQUOT, "Your disk quota is used up: there is no room left in 'runs/a'."),
        (errno.EROFS, "'runs/a/metrics.jsonl' cannot be written: its disk is read-only."),
        (errno.EACCES, "Permission denied: 'runs/a/metrics.jsonl' may not be read or written."),
    ],
)
def test_what_a_disk_refuses_is_no_fault_of_attnres(
    number: int, what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor can the state be written, which would hide it."""
    refused = OSError(number, os.strerror(number), "runs/a/metrics.jsonl")
    with monkeypatch.context() as disk:
        disk.setattr(directory, "append_row", refusing(refused, directory.append_row, after=2))
        disk.setattr(directory, "write_json", refusing(refused, directory.write_json, after=4))
        assert run([*TRAIN, "--json"]) == ExitCode.INPUT
    [error] = json.loads(capsys.readouterr().err.splitlines()[-1])["errors"]
    assert error["what"].startswith(f"{what} The run stopped after step ")
    assert error["hint"].endswith("then go on with: attnres train --resume runs/a")


def test_a_full_disk_before_the_first_step_leaves_no_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for module in (creation, directory):  # while its folder is made, and later
        with monkeypatch.context() as disk:
            disk.setattr(module, "write_json", refusing(full, creation.write_json))
            assert run(TRAIN) == ExitCode.INPUT
        assert "error: There is no room left in 'runs" in (said := capsys.readouterr().err)
        assert "No run was begun.\n" in said
        assert not list(Path("runs").iterdir())


def test_a_full_disk_in_a_group_is_a_reason_in_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "save_file", refusing(FULL, checkpoint.save_file))
    assert run(["train", "./small.toml", "--seeds", "2", "--name", "g", "--jobs", "1"]) == ExitCode.UNEXPECTED
    said = capsys.readouterr()
    assert (
        "There is no room left in 'runs/g/prenorm-s1'. The run stopped after step 2; nothing was saved yet." in said.out
    )
    assert "SafetensorError" not in said.out + said.err


@pytest.mark.parametrize(
    ("file", "place"), [("some/where/file.json", "'some/where'"), (None, "the folder that is written to")]
)
def test_any_command_says_that_a_disk_is_full(
    file: str | None, place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file)
    monkeypatch.setattr(lookup, "find_run", refusing(full, lookup.find_run))
    assert run(["train", "--resume", "a"]) == ExitCode.INPUT
    assert capsys.readouterr().err == (
        f"error: There is no room left in {place}.\n  expected: what was saved before is whole\n"
        "  try: make room on that disk, then run the same command again\n"
    )


def test_a_run_on_a_disk_that_has_become_read_only_is_not_resumed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(TRAIN) == 0
    capsys.readouterr()
    refused = OSError(errno.EROFS, os.strerror(errno.EROFS), "a temporary name")
    monkeypatch.setattr(Path, "open", refusing_to_write(refused, Path.open))
    monkeypatch.setattr(Path, "unlink", refusing(refused, Path.unlink))
    assert run(["train", "--resume", "a"]) == ExitCode.INPUT
    said = capsys.readouterr().err
    assert "error: 'runs/a/state.json' cannot be written: its disk is read-only. The run was not resumed; " in said
    assert "try: make it writable, then go on with: attnres train --resume runs/a\n" in said
    assert RunDirectory("runs/a").status == "finished"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["presets", "ls"], ["presets", "show", "cpu-tiny"], ["--help"], ["--version"]])
def test_a_result_without_room_is_no_fault_of_attnres(words: list[str]) -> None:
    with open("/dev/full", "wb") as full, forked.start(*words, stdout=full, stderr=subprocess.PIPE, text=True) as child:
        said = child.communicate(timeout=300)[1]
    assert (child.returncode, said.splitlines()[0]) == (
        ExitCode.INPUT,
        "error: The result cannot be written to stdout: there is no room left on its disk.",
    )
