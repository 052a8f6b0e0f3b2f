"""Help pages of the program and of every command, and what they may load."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import attnres_cli
from attnres_cli.cli.app import COMMANDS, load_command, run
from tests.cli.starting import ROOT, SLOW, call, loaded_by


@pytest.mark.parametrize("words", [["--help"], ["-h"]])
def test_help_names_every_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 0
    page = capsys.readouterr().out
    for name, (_, summary, section) in COMMANDS.items():
        assert f"{name} " in page
        assert summary in page  # whole, not cut
        assert f"{section}:" in page


def test_help_and_lists_load_no_slow_library(tmp_path: Path) -> None:
    for words in (["--help"], ["--version"], ["runs", "ls"], ["presets", "ls"], ["no-such-command"]):
        assert not loaded_by(*words, cwd=tmp_path).intersection(SLOW), words


def test_help_of_every_command_loads_no_slow_library() -> None:
    everything = "; ".join(f"run([{name!r}, '--help'])" for name in COMMANDS)
    check = f"import sys; from attnres_cli.cli.app import run; {everything}; print({{*{SLOW!r}}} & {{*sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout.count("Usage: attnres ") == len(COMMANDS), done.stderr
    assert done.stdout.endswith("\nset()\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "-h"]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"Usage: attnres {name}")
    assert "--install-completion" not in page
    assert "..." not in page.partition("Commands:")[2]  # summaries are whole


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_help_text(name: str) -> None:
    commands = [load_command(name)]
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        for parameter in command.params:
            assert parameter.help, f"{command.name} {parameter.name}"


def pages(name: str, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, str]]:
    """(command line, help page) of a command and of its subcommands."""
    words = [[name], *([name, each] for each in getattr(load_command(name), "commands", {}))]
    for each in words:
        assert run([*each, "--help"]) == 0
        yield " ".join(each), capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_speaks_of_names_and_numbers_and_fits_80_columns(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for line, page in pages(name, capsys):
        assert not re.search(r"<\w|list\[|\{|int range", page), line
        assert max(map(len, page.splitlines())) <= 80, line
        usage = page.partition("\n\n")[0]
        assert "......" not in usage, line


def test_help_says_what_each_option_takes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = dict(pages("train", capsys))["train"]
    assert page.startswith("Usage: attnres train [OPTIONS] [PRESET]\n")
    assert re.search(r"^  PRESET +Name of a preset", page, re.MULTILINE)
    assert re.search(r"^  --steps N +Train this many steps", page, re.MULTILINE)
    assert "[N>=1]" in page
    runs = dict(pages("runs", capsys))
    assert runs["runs rm"].startswith("Usage: attnres runs rm [OPTIONS] RUN...\n")
    sweep = dict(pages("sweep", capsys))
    assert "--match parameters|flops " in sweep["sweep depth-width"]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"attnres {attnres_cli.__version__}\n"


def test_runs_as_a_module() -> None:
    done = call("--version")
    assert (done.returncode, done.stdout) == (0, f"attnres {attnres_cli.__version__}\n")


def test_waiting_policy_is_set_before_torch_loads_and_the_users_choice_is_kept() -> None:
    show = "import attnres_cli, os; print(os.environ['OMP_WAIT_POLICY'])"
    without = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}

    def policy(**environment: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", show],
            cwd=ROOT,
            env={**without, **environment},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    assert policy() == "PASSIVE"
    assert policy(OMP_WAIT_POLICY="ACTIVE") == "ACTIVE"
