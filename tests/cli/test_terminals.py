"""On a terminal and off it: panels, pipes whose reader goes away, signals, terminals without Unicode, JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from attnres_cli.cli import app as program
from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode, Fault
from attnres_cli.train.stopping import stop_signals
from tests.cli.starting import ROOT, call


@pytest.mark.usefixtures("endings")
def test_panel_on_a_terminal_shows_user_text_as_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["endings", "one", "user"]) == ExitCode.INPUT
    panel = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().err)
    assert "╭─ error" in panel
    assert "No [bold]such[/bold] run." in panel
    assert "a.toml:3" in panel
    assert max(len(line) for line in panel.splitlines()) <= 80
    assert run(["endings", "one", "two"]) == ExitCode.INPUT
    assert "2 errors" in capsys.readouterr().err


def test_json_is_one_object_in_full_precision(capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    from attnres_cli.cli.console import print_json

    print_json(
        "some-kind",
        {"third": 1 / 3, "nothing": float("nan"), "path": Path("a/b"), "code": ExitCode.INPUT, "name": "[x] Δ"},
    )
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "schema": "attnres.some-kind/1", "third": 1 / 3, "nothing": None, "path": "a/b", "code": 3, "name": "[x] Δ"
    }  # fmt: skip
    print_json("some-kind", {"array": np.array([1.5, np.inf]), "number": np.float64(0.1), "fault": Fault("x")})
    document = json.loads(capsys.readouterr().out)
    assert (document["array"], document["number"], document["fault"]["what"]) == ([1.5, None], 0.1, "x")
    with pytest.raises(TypeError, match="no JSON form"):
        print_json("some-kind", {"thing": object()})


def test_nothing_is_cut_or_coloured_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    from attnres_cli.cli.console import stdout

    table = Table("name")
    table.add_row(Text("x" * 500, style="red"))
    stdout().print(table)
    printed = capsys.readouterr().out
    assert "x" * 500 in printed
    assert "\x1b" not in printed


# ---- pipes and signals

# A program with one more command, for what only a process of its own can show.
PROGRAM = """
import sys, time, types, typer
from attnres_cli.cli import app as program
app = typer.Typer()
@app.command()
def plain(): print("first", flush=True); [print(number) for number in range(200_000)]
@app.command()
def styled():
    from attnres_cli.cli.console import stdout
    console = stdout()
    for number in range(50_000): console.print(number)
@app.command()
def wait(): print("waiting", flush=True); time.sleep(60)
module = types.ModuleType("attnres_cli.cli.endings_of_tests"); module.app = app
sys.modules["attnres_cli.cli.endings_of_tests"] = module
program.COMMANDS["endings"] = ("endings_of_tests", "", "Tests")
program.main()
"""


def start_endings(*words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "endings", *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("command", ["plain", "styled"])
def test_reader_that_goes_away_is_no_error(command: str) -> None:
    with start_endings(command) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=300) == program.PIPE_CLOSED


@pytest.mark.parametrize("number", stop_signals())
def test_a_signal_ends_without_a_traceback(number: int) -> None:
    with start_endings("wait") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(timeout=300) == ExitCode.INTERRUPTED
        assert process.stderr.read() == "Interrupted.\n"


def test_terminal_without_unicode_shows_the_page() -> None:
    done = call("presets", "ls", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
