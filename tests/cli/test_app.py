"""The program as a whole: help, completion, exit codes, error panels; through the real entry point."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Annotated

import pytest
import typer

import attnres_cli
from attnres_cli.cli import app as program
from attnres_cli.cli.app import COMMANDS, load_command, run
from attnres_cli.cli.options import (
    DEFAULT_RUNS_DIR,
    JsonOption,
    PresetArgument,
    RunsArgument,
    RunsRootOption,
    SetOption,
)
from attnres_cli.errors import ExitCode, Fault, UserError

ROOT = Path(attnres_cli.__file__).parent.parent
SLOW = ("torch", "numpy", "tiktoken")


def call(*words: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program as a user starts it."""
    return subprocess.run(
        [sys.executable, "-m", "attnres_cli", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def loaded_by(*words: str, cwd: Path = ROOT, **environment: str) -> set[str]:
    """The modules that the program has loaded when it ends."""
    report = "import atexit, sys; atexit.register(lambda: sys.stderr.write('\\nloaded ' + ' '.join(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{report}\nfrom attnres_cli.cli.app import main\nmain()", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    _, found, modules = done.stderr.partition("\nloaded ")
    assert found, done.stderr
    return set(modules.split())


# ---- help


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
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
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


# ---- a malformed command line


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


probe_app = typer.Typer()


@probe_app.command()
def one(
    preset: PresetArgument,
    sets: SetOption = None,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    as_json: JsonOption = False,
    pairs: Annotated[int, typer.Option(min=1, help="How many.")] = 3,
    colour: Annotated[Colour, typer.Option(help="Which.")] = Colour.RED,
) -> None:
    endings: dict[str, Callable[[], object]] = {
        "print": lambda: print(sets, runs_dir, as_json, pairs, colour.value),
        "user": lambda: _raise(UserError("No [bold]such[/bold] run.", where="a.toml:3", nearest="b", hint="try it")),
        "two": lambda: _raise(UserError([Fault("First."), Fault("Second.", where="b.toml:4")])),
        "bug": lambda: _raise(ZeroDivisionError("by [nothing]")),
        "memory": lambda: _raise(MemoryError()),
        "interrupt": lambda: _raise(KeyboardInterrupt()),
        "abort": lambda: _raise(typer.Abort()),
        "exit": lambda: _raise(typer.Exit(ExitCode.DIVERGED)),
        "bad": lambda: _raise(typer.BadParameter("not this")),
    }
    endings[preset]()


@probe_app.command()
def two(runs: RunsArgument) -> None:
    """Another one."""


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command `probe` that ends in every way a command can end."""
    module = ModuleType("attnres_cli.cli.probe")
    module.app = probe_app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "attnres_cli.cli.probe", module)
    monkeypatch.setitem(COMMANDS, "probe", ("probe", "Ends in every way.", "Tests"))


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("words", "what", "nearest"),
    [
        (["tran"], "There is no command 'tran'.", "train"),
        (["zzzzzz"], "There is no command 'zzzzzz'.", None),
        (["--versoin"], "There is no option '--versoin'.", "--version"),
        (["probe", "on", "x"], "There is no command 'on'.", "one"),
        (["probe"], "Missing command.", None),
        (["probe", "one"], "The argument PRESET is missing.", None),
        (["probe", "one", "print", "--stes", "x"], "There is no option '--stes'.", "--set"),
        (["probe", "one", "print", "--set"], "Option '--set' requires an argument.", None),
        (["probe", "one", "print", "--colour", "gren"], "--colour gren: 'gren' is not one of 'red', 'green'.", "green"),
        (["probe", "one", "print", "--colour=gren"], "--colour gren: 'gren' is not one of 'red', 'green'.", "green"),
        (["probe", "one", "print", "extra"], "unexpected extra argument", None),
        (["probe", "one", "bad"], "not this", None),
    ],
)
@pytest.mark.usefixtures("probe")
def test_malformed_command_line(
    words: list[str], what: str, nearest: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == ExitCode.USAGE
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith("error: ")
    assert what in streams.err
    assert "Traceback" not in streams.err
    assert "  try: attnres " in streams.err
    assert ("  nearest: " in streams.err) == (nearest is not None)
    if nearest is not None:
        assert f"  nearest: {nearest}\n" in streams.err


@pytest.mark.parametrize("pairs", ["x", "0"])
@pytest.mark.usefixtures("probe")
def test_bad_number_is_shown_with_its_option(pairs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "one", "print", "--pairs", pairs]) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith(f"error: --pairs {pairs}: ")


@pytest.mark.usefixtures("probe")
def test_group_without_a_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe"]) == ExitCode.USAGE
    assert "  expected: one, two\n" in capsys.readouterr().err


def test_no_arguments_print_the_help_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == ExitCode.USAGE
    streams = capsys.readouterr()
    assert streams.out.startswith("Usage: attnres ")
    assert streams.err == ""


# ---- how a command ends


@pytest.mark.usefixtures("probe")
def test_shared_options_arrive(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["probe", "one", "print", "--set", "a=1", "--set", "b=[1, 2]", "--json"]) == 0
    assert capsys.readouterr().out == "['a=1', 'b=[1, 2]'] runs True 3 red\n"
    monkeypatch.setenv("ATTNRES_RUNS", "elsewhere")
    assert run(["probe", "one", "print"]) == 0
    assert capsys.readouterr().out == "None elsewhere False 3 red\n"


@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [
        ("user", ExitCode.INPUT, "error: No [bold]such[/bold] run.\n  where: a.toml:3\n  nearest: b\n  try: try it\n"),
        ("two", ExitCode.INPUT, "error: First.\nerror: Second.\n  where: b.toml:4\n"),
        ("bug", ExitCode.UNEXPECTED, "error: Unexpected ZeroDivisionError: by [nothing]\n"),
        ("memory", ExitCode.OUT_OF_MEMORY, "error: Out of memory.\n"),
        ("interrupt", ExitCode.INTERRUPTED, ""),
        ("abort", ExitCode.INTERRUPTED, "Interrupted.\n"),
        ("exit", ExitCode.DIVERGED, ""),
    ],
)
@pytest.mark.usefixtures("probe")
def test_endings(ending: str, code: ExitCode, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "one", ending]) == code
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith(said)
    assert "Traceback" not in streams.err


@pytest.mark.usefixtures("probe")
def test_out_of_memory_of_torch(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    for error, amount in (
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has"), "20.00 GiB"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 400 bytes."), "400 bytes"),
    ):
        monkeypatch.setattr(program, "get_command", lambda _, error=error: _raise(error))
        assert run(["train"]) == ExitCode.OUT_OF_MEMORY
        assert capsys.readouterr().err.startswith(f"error: Out of memory: {amount} could not be allocated.\n")


@pytest.mark.parametrize("words", [["--debug", "probe", "one", "bug"], ["probe", "one", "bug", "--debug"]])
@pytest.mark.usefixtures("probe")
def test_debug_shows_the_traceback_from_anywhere(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == ExitCode.UNEXPECTED
    said = capsys.readouterr().err
    assert "Traceback (most recent call last)" in said
    assert "error: Unexpected ZeroDivisionError" in said


@pytest.mark.usefixtures("probe")
def test_debug_keeps_the_exit_code_of_a_users_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "one", "user", "--debug"]) == ExitCode.INPUT
    assert "Traceback" in capsys.readouterr().err


def test_debug_after_two_dashes_is_an_argument() -> None:
    assert program._take_debug(["a", "--", "--debug"]) == (["a", "--", "--debug"], False)
    assert program._take_debug(["a", "--debug", "--", "b"]) == (["a", "--", "b"], True)


# A program with one more command, for what only a process of its own can show.
PROBE_PROGRAM = """
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
module = types.ModuleType("attnres_cli.cli.probe"); module.app = app
sys.modules["attnres_cli.cli.probe"] = module
program.COMMANDS["probe"] = ("probe", "", "Tests")
program.main()
"""


def start_probe(*words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROBE_PROGRAM, "probe", *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("command", ["plain", "styled"])
def test_reader_that_goes_away_is_no_error(command: str) -> None:
    with start_probe(command) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == program.PIPE_CLOSED


def test_control_c_ends_without_a_traceback() -> None:
    with start_probe("wait") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == ExitCode.INTERRUPTED
        assert "Traceback" not in process.stderr.read()


def test_terminal_without_unicode_shows_the_page() -> None:
    done = call("presets", "ls", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr


# ---- on a terminal


@pytest.mark.usefixtures("probe")
def test_panel_on_a_terminal_shows_user_text_as_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["probe", "one", "user"]) == ExitCode.INPUT
    panel = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().err)
    assert "╭─ error" in panel
    assert "No [bold]such[/bold] run." in panel
    assert "a.toml:3" in panel
    assert max(len(line) for line in panel.splitlines()) <= 80
    assert run(["probe", "one", "two"]) == ExitCode.INPUT
    assert "2 errors" in capsys.readouterr().err


def test_json_is_one_object_in_full_precision(capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    from attnres_cli.cli.console import print_json

    print_json(
        "probe", {"third": 1 / 3, "nothing": float("nan"), "path": Path("a/b"), "code": ExitCode.INPUT, "name": "[x] Δ"}
    )
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "schema": "attnres.probe/1", "third": 1 / 3, "nothing": None, "path": "a/b", "code": 3, "name": "[x] Δ"
    }  # fmt: skip
    print_json("probe", {"array": np.array([1.5, np.inf]), "number": np.float64(0.1), "fault": Fault("x")})
    document = json.loads(capsys.readouterr().out)
    assert (document["array"], document["number"], document["fault"]["what"]) == ([1.5, None], 0.1, "x")
    with pytest.raises(TypeError, match="no JSON form"):
        print_json("probe", {"thing": object()})


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


# ---- completion


def complete(line: str, shell: str, cwd: Path, **environment: str) -> list[str]:
    """What `shell` is offered for `line`, by the protocol that its completion script speaks."""
    words = line.split(" ")
    protocol = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    done = call(cwd=cwd, _ATTNRES_COMPLETE=f"complete_{shell}", **protocol, **environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [row.split("\t")[0].strip("\"'() ") for row in done.stdout.splitlines() if row]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a preset, an overlay and runs of its own."""
    for folder in (
        "presets/overlays",
        "runs/alpha-1",
        "runs/alpha-2",
        "runs/beta",
        "elsewhere/gamma",
        "runs/group/inner",
    ):
        (tmp_path / folder).mkdir(parents=True)
    for run_folder in ("runs/alpha-1", "runs/alpha-2", "runs/beta", "runs/group/inner", "elsewhere/gamma"):
        (tmp_path / run_folder / "manifest.json").write_text("{}")
    (tmp_path / "presets" / "mine.toml").write_text("")
    (tmp_path / "presets" / "overlays" / "quick.toml").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("attnres comp", ["compare"]),
        ("attnres train mi", ["mine"]),
        ("attnres train cpu-t", ["cpu-tiny"]),
        ("attnres train mine --residual pre", ["prenorm"]),
        ("attnres train mine --overlay qui", ["quick"]),
        ("attnres train mine --overl", ["--overlay"]),
        ("attnres plan mi", ["mine"]),
        ("attnres presets sh", ["show"]),
        ("attnres presets show mi", ["mine"]),
        ("attnres compare al", ["alpha-1", "alpha-2"]),
        ("attnres compare alpha-1 be", ["beta"]),
        ("attnres compare gr", ["group/inner"]),
        ("attnres compare --runs-dir elsewhere g", ["gamma"]),
        ("attnres runs show be", ["beta"]),
        ("attnres no-such-command x", []),
    ],
)
def test_completion(line: str, offered: list[str], project: Path) -> None:
    assert complete(line, "bash", project) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_in_every_shell(shell: str, project: Path) -> None:
    offered = complete("attnres compare alpha", shell, project)
    assert [name for name in ("alpha-1", "alpha-2") if any(name in row for row in offered)] == ["alpha-1", "alpha-2"]


def test_completion_without_a_runs_folder_is_silent(tmp_path: Path) -> None:
    assert complete("attnres compare x", "bash", tmp_path) == []


@pytest.mark.parametrize("line", ["attnres tr", "attnres train m", "attnres compare a", "attnres train m --residual p"])
def test_completion_loads_no_slow_library(line: str, project: Path) -> None:
    words = line.split(" ")
    modules = loaded_by(cwd=project, _ATTNRES_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert not modules.intersection((*SLOW, "pydantic"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str) -> None:
    done = call("--show-completion", shell)
    assert done.returncode == 0, done.stderr
    assert "_ATTNRES_COMPLETE" in done.stdout
    assert f"complete_{shell}" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_in_the_home_folder(shell: str, tmp_path: Path) -> None:
    done = call("--install-completion", shell, HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(f"complete_{shell}" in path.read_text() for path in written)
    assert any(str(path) in done.stdout for path in written)


def test_completion_of_an_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--show-completion", "fsh"]) == ExitCode.USAGE
    assert "nearest: fish" in capsys.readouterr().err


def test_completion_without_a_shell_takes_the_current_one() -> None:
    """The shell is the nearest one above the program in the tree of processes: here bash, whatever runs the tests."""
    line = f"{shlex.quote(sys.executable)} -m attnres_cli --show-completion; exit $?"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "_ATTNRES_COMPLETE" in done.stdout
