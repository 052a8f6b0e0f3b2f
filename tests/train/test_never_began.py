"""A run that is killed before its first step is one that can be resumed, and then it is the run it would have been."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run as attnres
from attnres_cli.errors import ExitCode, Interrupted
from attnres_cli.preset.reading import load_preset
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.train.beginning import start_of
from attnres_cli.train.events import Event, Preparing
from attnres_cli.train.loop import train
from tests import forked
from tests.small import small_preset

CLOCKS = ("tokens_per_second", "step_seconds", "train_seconds", "eval_seconds")
COMMAND = [
    "train", "mine.toml", "--steps", "3", "--seed", "7", "--residual", "attnres-block",
    "--set", "train.tokens_per_step=128", "--set", "train.micro_batch_sequences=2", "--set", "eval.tokens=128",
    "--set", "train.threads=1", "--set", "train.log_every_steps=1",
]  # fmt: skip
# What a run does before its first step, in this order: the function that is called, and where it is called from.
PLACES = {
    "being created": "attnres_cli.cli.train._train",
    "reading": "attnres_cli.train.beginning.prepare",
    "building the model": "attnres_cli.train.beginning.open_session",
    "about to say what it is": "attnres_cli.train.beginning.manifest_of",
}
KILLED_AT = """
import importlib, os, signal, sys
module, _, name = sys.argv.pop(1).rpartition(".")
setattr(importlib.import_module(module), name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
from attnres_cli.cli.app import main
main()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a preset and its text."""
    monkeypatch.chdir(tmp_path)
    for number in range(40):
        Path(f"{number}.txt").write_text(f"file {number}: " + "the quick brown fox. " * (10 + number))
    Path("mine.toml").write_text('extends = "cpu-tiny"\n[data]\ncorpus = "text"\nfiles = ["*.txt"]\n')


def killed(place: str, name: str) -> RunDirectory:
    """What is left of `attnres train … --name NAME` when the process is killed at that place."""
    words = (PLACES[place], *COMMAND, "--name", name)
    with forked.start(*words, program=KILLED_AT, stderr=subprocess.PIPE, text=True) as process:
        _, said = process.communicate(timeout=900)
    assert process.returncode == -signal.SIGKILL, said
    return RunDirectory(Path("runs") / name)


def measured(run: RunDirectory) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key not in CLOCKS} for row in run.metrics()]


@pytest.mark.parametrize("place", PLACES)
def test_resumed_it_is_the_run_it_would_have_been(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = killed(place, "so")
    assert {path.name for path in run.path.iterdir()} >= {"preset.toml", "resolved.toml", "state.json"}
    assert not run.manifest_path.exists()
    assert run.status == "stale"

    assert attnres(["runs", "ls"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[0] == "stale"
    assert attnres(["runs", "show", "so"]) == 0
    shown = {
        line.split()[0]: line.split(maxsplit=1)[-1].strip() for line in capsys.readouterr().out.splitlines() if line
    }
    assert shown["problem"] == "it was stopped before its first step"
    assert shown["preset"] == "mine, seed 7"
    assert shown["resume"] == "attnres train --resume runs/so"

    assert attnres(["train", "--resume", "so"]) == 0
    assert attnres([*COMMAND, "--name", "whole"]) == 0
    whole = RunDirectory(Path("runs/whole"))
    assert measured(run) == measured(whole)
    assert len(run.train_rows()) == 3
    assert run.status == "finished"
    ours, theirs = run.manifest(), whole.manifest()
    for key in ("preset_name", "preset_digest", "scheme", "seed", "data", "model"):
        assert ours[key] == theirs[key]
    assert ours["command"].endswith("--name so")
    assert run.resolved_toml.read_text() == whole.resolved_toml.read_text()


def stop_at_once(event: Event) -> None:
    if isinstance(event, Preparing):
        os.kill(os.getpid(), signal.SIGINT)


def test_stopped_again_while_it_is_prepared_it_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new run that is stopped so early is removed again; one that is resumed has been announced as resumable."""
    monkeypatch.setenv("ATTNRES_CACHE", str(tmp_path / "cache"))  # nothing has been prepared by another test
    preset = small_preset()
    run = RunDirectory.create(Path("runs"), "", "mine", start=start_of(preset))
    with pytest.raises(Interrupted) as stopped:
        train(preset, run, on_event=stop_at_once, resume=True)
    assert stopped.value.what == "Interrupted while building the model: the run is as it was, it has taken no step yet."
    assert stopped.value.hint == "resume with: attnres train --resume runs/mine"
    assert run.status == "interrupted"
    assert run.never_began
    assert train(preset, run, resume=True).status == "finished"


def test_what_is_wrong_with_it_leaves_it_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    preset = load_preset("./mine.toml")
    run = RunDirectory.create(Path("runs"), "", "mine", start=start_of(preset))
    run.write_state(status="interrupted")
    for text in Path().glob("*.txt"):
        text.unlink()
    assert attnres(["train", "--resume", "mine"]) == ExitCode.INPUT
    assert run.resolved_toml.exists()
    capsys.readouterr()
    assert attnres(["runs", "show", "mine"]) == 0
    assert "it was stopped before its first step: " in capsys.readouterr().out


def test_one_of_an_older_version_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """That wrote resolved.toml only with its first step."""
    RunDirectory.create(Path("runs"), "", "so").write_state(status="interrupted")
    assert attnres(["train", "--resume", "so"]) == ExitCode.INPUT
    said = capsys.readouterr().err
    assert "Run 'so' was stopped before its first step, and has no resolved.toml to begin it from" in said
    assert "try: attnres runs rm so, then start the run again" in said
    assert attnres(["runs", "show", "so"]) == 0
    assert "nothing here says how it was to begin: remove it and start it again" in capsys.readouterr().out
    assert attnres(["runs", "ls"]) == 0
