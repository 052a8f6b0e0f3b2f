"""`attnres watch` through the real entry point: once, until the end, interrupted, on a terminal and in a pipe."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from attnres_cli.runs.directory import RunDirectory
from tests.cli.starting import ROOT, SLOW, loaded_by, on_a_terminal
from tests.fabricated_runs import BLOCK_SCHEME, fabricate, loss_at


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "runs"
    fabricate(root, "[bold]", until_step=60, status="running")
    fabricate(root, "mixing", residual=BLOCK_SCHEME, better_by=0.05, until_step=40, status="running")
    return root


@contextmanager
def watching(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`attnres watch` in a process of its own, whose stdout is a pipe."""
    process = subprocess.Popen(
        [sys.executable, "-m", "attnres_cli", "watch", "--interval-seconds", "0.1", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_once_prints_what_trains(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabricate(root, "older")
    assert run(["watch", "--once"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert " ".join(lines[0].split()) == "run scheme seed status step loss val. lr tok/s ETA loss so far"
    assert lines[3].split()[:5] == ["[bold]", "prenorm", "0", "running", "60/100"]
    assert lines[4].split()[0] == "mixing"
    assert "not a result" in captured.out
    assert "older" not in captured.out
    assert captured.err == ""


def test_once_as_json(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", "mixing", "[bold]", "--once", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "attnres.watch/1"
    assert document["is_over"] is False
    assert [each["name"] for each in document["tables"]["watched"]["rows"]] == ["mixing", "[bold]"]
    assert document["runs"][1]["steps"] == 100
    [pair] = document["differences"]
    assert pair["difference_nats"] == loss_at(40, 0.05) - loss_at(40, 0.0)
    assert pair["at_the_end"] is False


def test_nothing_to_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["watch", "--once"]) == 0
    assert capsys.readouterr() == ("", "No run is training in runs.\n")
    assert run(["watch", "--once", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == []


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_an_interval_that_is_none_is_refused(root: Path, capsys: pytest.CaptureFixture[str], seconds: str) -> None:
    assert run(["watch", "--interval-seconds", seconds]) == ExitCode.USAGE
    assert "expected: 0.1 to 3600 seconds" in capsys.readouterr().err


def test_in_a_pipe_lines_say_what_changes_and_the_end_is_the_table(root: Path) -> None:
    with watching(root.parent) as process:
        assert process.stdout is not None
        first = [process.stdout.readline(), process.stdout.readline()]
        assert first[0].startswith("[bold]: running  step 60/100  loss 1.6691  val@60 1.6991")
        assert first[1].startswith("mixing: running  step 40/100")
        RunDirectory(root / "[bold]").write_state(status="diverged", error="the loss is not finite")
        assert process.stdout.readline().startswith("[bold]: diverged  step 60/100")
        RunDirectory(root / "mixing").write_state(status="finished", step=100)
        assert process.stdout.readline().startswith("mixing: finished  step 100/100")
        out = process.stdout.read()
        assert process.wait(timeout=60) == 0
    assert out.startswith("run ")
    assert re.search(r"mixing +attnres-block +0 +finished +100/100", out)
    assert "[bold]: the loss is not finite" in out
    assert "\x1b" not in out


def test_json_waits_for_the_end_and_says_on_stderr_how_it_goes(root: Path) -> None:
    with watching(root.parent, "mixing", "--json") as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("mixing: running")
        RunDirectory(root / "mixing").write_state(status="finished", step=100)
        assert process.stdout is not None
        out = process.stdout.read()
        assert process.wait(timeout=60) == 0
    assert json.loads(out)["is_over"] is True


def test_ctrl_c_ends_the_watch_and_not_the_runs(root: Path) -> None:
    with watching(root.parent) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.stdout.read(), process.stderr.read()
        assert process.wait(timeout=60) == ExitCode.INTERRUPTED
    assert "Stopped watching; the runs go on." in err
    assert "Traceback" not in err
    assert re.search(r"mixing +attnres-block +0 +running +40/100", out)  # the last picture stays
    assert RunDirectory(root / "mixing").status == "running"


def test_on_a_terminal_the_picture_ends_as_the_table(root: Path) -> None:
    for name in ("[bold]", "mixing"):
        RunDirectory(root / name).write_state(status="interrupted")
    shown = on_a_terminal(root.parent, "watch", "[bold]", "mixing")
    plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown)
    assert "interrupted" in plain
    assert "[bold]" in plain
    assert max(map(len, plain.replace("\r", "\n").splitlines())) <= 80


def test_watching_loads_nothing_slow(root: Path) -> None:
    assert not loaded_by("watch", "--once", cwd=root.parent) & {*SLOW, "pydantic"}


def test_a_run_that_is_not_there_is_an_error(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", "mixxing"]) == ExitCode.INPUT
    assert "nearest: mixing" in capsys.readouterr().err
