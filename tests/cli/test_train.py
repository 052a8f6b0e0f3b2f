"""`attnres train` through the real entry point: what it says when it does not begin, or is stopped early."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode, Interrupted
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.train.events import Event, Preparing, Started, Stepped
from attnres_cli.train.loop import train
from tests.small import small_preset


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# ---- wrong options are named as they were typed


@pytest.mark.parametrize("device", ["cdua", "cuda:99", "tpu"])
def test_a_wrong_device_is_named_as_it_was_typed(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "cpu-tiny", "--steps", "1", "--device", device]) == ExitCode.INPUT
    said = capsys.readouterr().err
    assert f"  where: --device {device}\n" in said
    assert "--set" not in said
    assert not Path("runs").exists()


def test_a_device_of_the_preset_is_named_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text('extends = "cpu-tiny"\n[train]\ndevice = "cuda:99"\n')
    assert run(["train", "mine.toml"]) == ExitCode.INPUT
    assert "  where: mine.toml:3\n" in capsys.readouterr().err


def test_too_many_steps_are_named_as_they_were_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "cpu-tiny", "--steps", "0"]) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith("error: --steps 0: the number is out of range.\n  where: attnres train\n")


# ---- stopped before the first step


def interrupted_during(phase: str, **changes: object) -> Interrupted:
    """What a training says that gets SIGINT when it begins `phase`."""

    def hear(event: Event) -> None:
        if isinstance(event, Preparing) and event.phase == phase:
            os.kill(os.getpid(), signal.SIGINT)
        assert not isinstance(event, (Started, Stepped)) or phase == "building the model"

    run_directory = RunDirectory.create(Path("runs"), "stem", "early")
    with pytest.raises(Interrupted) as stopped:
        train(small_preset(**changes), run_directory, on_event=hear)
    assert not run_directory.path.exists()
    return stopped.value


def test_interrupted_while_reading_says_that_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATTNRES_CACHE", str(tmp_path / "cache"))
    for number in range(4):
        Path(f"{number}.txt").write_text("many words " * 120_000)
    Path("mine.toml").write_text('extends = "cpu-tiny"\n[data]\ncorpus = "text"\nfiles = ["*.txt"]\n')
    from attnres_cli.preset.reading import load_preset

    def hear(event: Event) -> None:
        if isinstance(event, Preparing):
            assert event.phase == "reading"
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(sys, "argv", ["attnres", "train", "mine.toml"])
    with pytest.raises(Interrupted) as stopped:
        train(load_preset("./mine.toml"), RunDirectory.create(Path("runs"), "stem", "early"), on_event=hear)
    assert stopped.value.what == (
        "Interrupted while reading, before the first step: no run was begun, no data prepared in part is kept."
    )
    assert stopped.value.hint == "start again with: attnres train mine.toml"
    assert not list(Path("runs").iterdir())
    assert not list((tmp_path / "cache").rglob("*.bin"))


def test_interrupted_after_tokenising_says_that_the_data_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ATTNRES_CACHE", str(tmp_path / "cache"))
    said = interrupted_during("tokenising").what
    assert said.startswith("Interrupted while building the model, before the first step: no run was begun")
    assert said.endswith("the prepared data is kept.")
    assert list((tmp_path / "cache").rglob("train.bin"))


def test_interrupting_a_resumed_run_early_names_the_command_that_resumes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    preset, directory = small_preset(), RunDirectory.create(Path("runs"), "stem", "mine")

    def stop_after_two(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == 2:
            os.kill(os.getpid(), signal.SIGINT)

    train(preset, directory, on_event=stop_after_two)

    monkeypatch.setenv("ATTNRES_CACHE", str(tmp_path / "emptied"))  # so that there is something to prepare

    def stop_at_once(event: Event) -> None:
        if isinstance(event, Preparing):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted) as stopped:
        train(preset, directory, on_event=stop_at_once, resume=True)
    assert stopped.value.hint == "resume with: attnres train --resume runs/mine"
    assert directory.status == "interrupted"


def test_interrupted_data_preparation_says_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("attnres_cli.data.prepare.prepare", interrupted)
    monkeypatch.setattr("sys.argv", ["attnres", "data", "prepare", "cpu-tiny"])
    assert run(["data", "prepare", "cpu-tiny"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err.splitlines() == [
        "Interrupted while preparing the data: no data prepared in part is kept.",
        "start again with: attnres data prepare cpu-tiny",
    ]
    assert run(["data", "prepare", "cpu-tiny", "--json"]) == ExitCode.INTERRUPTED
    [error] = json.loads(capsys.readouterr().err)["errors"]
    assert error["hint"] == "start again with: attnres data prepare cpu-tiny"
