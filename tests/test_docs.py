"""Every command in README.md and docs/ is run, or at least parsed, by the program it documents.

A block fenced as `console` is a session: its lines that begin with "$ " are run, in order, in a folder that belongs to
the document; the other lines are output for the reader. Words after `console` say more:

    console no-run    not run (it takes too long, or needs a file of the reader's); every `attnres` and `make` line must
                      still name a command, options and a target that exist
    console exit=3    the last command of the block must end with this code instead of 0
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import COMMANDS, load_command, run
from attnres_cli.preset.preset import Preset
from attnres_cli.sweep import calibration

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"'[^']*'" + r'|"[^"$`\\]*"')
# One call of the program, with nothing that a shell would have to do but a pipe into it and a file to write.
CALL = re.compile(r"(?:(?P<source>[^|<>&;]*)\| )?(?P<call>attnres [^|<>&;$*~`]*?)(?: > (?P<file>[^|<>&;$*~` ]+))?")


@dataclass(frozen=True)
class Command:
    """One line after "$ ". last_code: the exit code it must end with."""

    line: str
    place: str
    runs: bool
    code: int


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def commands(document: Path) -> list[Command]:
    text = document.read_text(encoding="utf-8")
    found: list[Command] = []
    for fence in FENCE.finditer(text):
        kind, *words = fence.group("info").split() or [""]
        if kind != "console":
            continue
        exits = [int(word.removeprefix("exit=")) for word in words if word.startswith("exit=")]
        assert set(words) <= {"no-run", *(f"exit={code}" for code in exits)}, f"{document}: ```{fence.group('info')}"
        first_line = text.count("\n", 0, fence.start("body")) + 1
        lines = fence.group("body").replace("\\\n", "\\ ").splitlines()
        block = [
            (number, line[2:].replace("\\ ", " "))
            for number, line in enumerate(lines, first_line)
            if line.startswith("$ ")
        ]
        for number, line in block:
            code = exits[0] if exits and (number, line) == block[-1] else 0
            found.append(Command(line, f"{name_of(document)}:{number}", "no-run" not in words, code))
    return found


RUNNABLE = [document for document in DOCUMENTS if any(command.runs for command in commands(document))]


@pytest.fixture
def short_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans, dry runs and benches time steps; here it does not matter how well. Checks of `attnres verify` take few
    steps and small batches; tests/verify/ has them whole."""
    monkeypatch.setattr("attnres_cli.bench.calibrate.SECONDS", 0.05)
    for module in ("payload", "operator"):
        monkeypatch.setattr(f"attnres_cli.bench.{module}.SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr("attnres_cli.bench.stored.MOST_ROUNDS", 3)
    monkeypatch.setattr("attnres_cli.verify.checks.oracle.STEPS", 2)
    monkeypatch.setattr("attnres_cli.verify.checks.two_phase.BATCH", (2, 8))
    monkeypatch.setattr(calibration, "ROUNDS", 1)
    standing_still = calibration.standing_still

    def of_one_sequence(preset: Preset) -> Preset:
        return standing_still(preset).replace(
            {"train.tokens_per_step": preset.model.context_tokens, "train.micro_batch_sequences": 1}
        )

    monkeypatch.setattr(calibration, "standing_still", of_one_sequence)


@pytest.mark.usefixtures("short_timing")
@pytest.mark.parametrize("document", RUNNABLE, ids=name_of)
def test_commands_run(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bin_folder = program_on_path(tmp_path)
    monkeypatch.setenv("PATH", str(bin_folder), prepend=":")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for command in commands(document):
        if command.runs:
            code, said = execute(command.line, capsys)
            assert code == command.code, f"{command.place}: $ {command.line}\n{said}"
            assert "Traceback" not in said, f"{command.place}: $ {command.line}\n{said}"


def program_on_path(folder: Path) -> Path:
    """A folder with an `attnres` that is the code under test, for lines that need a shell."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    program = bin_folder / "attnres"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m attnres_cli "$@"\n')
    program.chmod(0o755)
    return bin_folder


def execute(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run one line; in this process where it is nothing but a call of the program, for torch to load only once."""
    call = CALL.fullmatch(QUOTED.sub(lambda quoted: "_" * len(quoted[0]), line))
    if call is None:
        code, printed, said = in_a_shell(line)
        return code, printed + said
    source, words, file = (line[slice(*call.span(part))] for part in ("source", "call", "file"))
    with pytest.MonkeyPatch.context() as patch:
        if source:
            code, piped, said = in_a_shell(source)
            assert code == 0, said
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped.encode()), encoding="utf-8"))
        code = run(shlex.split(words)[1:])
    streams = capsys.readouterr()
    if file:
        Path(file).write_text(streams.out, encoding="utf-8")
    return code, streams.out + streams.err


def in_a_shell(line: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr)"""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False, timeout=300
    )
    return done.returncode, done.stdout, done.stderr


NOT_RUN = [command for document in DOCUMENTS for command in commands(document) if not command.runs]


@pytest.mark.parametrize("command", NOT_RUN, ids=lambda command: f"{command.place} {command.line[:40]}")
def test_commands_that_are_not_run_exist(command: Command) -> None:
    for part in re.split(r"\s(?:\||&&|;|>)\s", command.line):
        words = [
            word for word in shlex.split(part) if not re.match(r"[A-Z_]+=", word)
        ]  # VARIABLE=value before a command
        if words[0].endswith("attnres"):
            parse(words[1:])
        elif words[0] == "make":
            targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
            assert set(words[1:]) <= set(targets)


def parse(words: list[str]) -> None:
    """Parse a command line down to its last option without running it; the parser's own error is the failure."""
    if words[0].startswith("-"):
        assert words[0] in ("--help", "-h", "--version", "--install-completion", "--show-completion", "--debug")
        return
    assert words[0] in COMMANDS, f"no command {words[0]}"
    command: Any = load_command(words[0])
    path, rest = f"attnres {words[0]}", words[1:]
    while hasattr(command, "list_commands") and rest and not rest[0].startswith("-"):
        names = command.list_commands(None)
        assert rest[0] in names, f"{path} has no command {rest[0]}, only {names}"
        command = command.get_command(None, rest[0])
        path, rest = f"{path} {rest[0]}", rest[1:]
    if not {"--help", "-h"}.intersection(rest):
        command.make_context(path, rest, help_option_names=["-h", "--help"])


LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)]*)?\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    missing = [match.group(1) for match in LINK.finditer(text) if not (document.parent / match.group(1)).exists()]
    assert not missing


def test_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = {match.group(1) for match in LINK.finditer(index)}
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"} <= listed


def test_exit_codes_page_lists_every_code() -> None:
    from attnres_cli.cli.app import PIPE_CLOSED
    from attnres_cli.errors import ExitCode

    page = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| (\d+) \|", page, re.MULTILINE)) == {str(int(code)) for code in ExitCode} | {
        str(PIPE_CLOSED)
    }
