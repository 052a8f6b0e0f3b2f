"""Whatever goes wrong is said in one way, with the exit code that scripts rely on; through the real entry point."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli import app as program
from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode

# ---- a malformed command line


@pytest.mark.parametrize(
    ("words", "what", "nearest"),
    [
        (["tran"], "There is no command 'tran'.", "train"),
        (["zzzzzz"], "There is no command 'zzzzzz'.", None),
        (["--versoin"], "There is no option '--versoin'.", "--version"),
        (["endings", "on", "x"], "There is no command 'on'.", "one"),
        (["endings"], "Missing command.", None),
        (["endings", "one"], "The argument PRESET is missing.", None),
        (["endings", "one", "print", "--stes", "x"], "There is no option '--stes'.", "--set"),
        (["endings", "one", "print", "--set"], "Option '--set' requires an argument.", None),
        (
            ["endings", "one", "print", "--colour", "gren"],
            "--colour gren: 'gren' is not one of 'red', 'green'.",
            "green",
        ),
        (["endings", "one", "print", "--colour=gren"], "--colour gren: 'gren' is not one of 'red', 'green'.", "green"),
        (["endings", "one", "print", "extra"], "unexpected extra argument", None),
        (["endings", "one", "bad"], "not this", None),
    ],
)
@pytest.mark.usefixtures("endings")
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


@pytest.mark.parametrize(
    ("words", "what", "expected"),
    [
        (["--pairs", "x"], "--pairs x: this is no whole number.", "a whole number, at least 1"),
        (["--pairs", "2.5"], "--pairs 2.5: this is no whole number.", "a whole number, at least 1"),
        (["--pairs", "0"], "--pairs 0: the number is out of range.", "a whole number, at least 1"),
        (["--pairs=-3"], "--pairs -3: the number is out of range.", "a whole number, at least 1"),
        (["--share", "half"], "--share half: this is no number.", "a number, at least 0, at most 1"),
        (["--share", "1.5"], "--share 1.5: the number is out of range.", "a number, at least 0, at most 1"),
    ],
)
@pytest.mark.usefixtures("endings")
def test_bad_number(words: list[str], what: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["endings", "one", "print", *words]) == ExitCode.USAGE
    assert capsys.readouterr().err == (
        f"error: {what}\n  where: attnres endings one\n  expected: {expected}\n  try: attnres endings one --help\n"
    )


@pytest.mark.usefixtures("endings")
def test_group_without_a_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["endings"]) == ExitCode.USAGE
    assert "  expected: one, two\n" in capsys.readouterr().err


def test_no_arguments_print_the_help_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == ExitCode.USAGE
    streams = capsys.readouterr()
    assert streams.out.startswith("Usage: attnres ")
    assert streams.err == ""


# ---- how a command ends


@pytest.mark.usefixtures("endings")
def test_shared_options_arrive(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["endings", "one", "print", "--set", "a=1", "--set", "b=[1, 2]", "--json"]) == 0
    assert capsys.readouterr().out == "['a=1', 'b=[1, 2]'] runs True 3 red\n"
    monkeypatch.setenv("ATTNRES_RUNS", "elsewhere")
    assert run(["endings", "one", "print"]) == 0
    assert capsys.readouterr().out == "None elsewhere False 3 red\n"


@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [
        ("user", ExitCode.INPUT, "error: No [bold]such[/bold] run.\n  where: a.toml:3\n  nearest: b\n  try: try it\n"),
        ("two", ExitCode.INPUT, "error: First.\nerror: Second.\n  where: b.toml:4\n"),
        ("bug", ExitCode.UNEXPECTED, "error: Unexpected ZeroDivisionError: by [nothing]\n"),
        ("memory", ExitCode.OUT_OF_MEMORY, "error: Out of memory.\n"),
        ("interrupt", ExitCode.INTERRUPTED, "Interrupted.\n"),
        ("kept", ExitCode.INTERRUPTED, "Nothing is lost.\ngo on\n"),
        ("abort", ExitCode.INTERRUPTED, "Interrupted.\n"),
        ("exit", ExitCode.DIVERGED, ""),
    ],
)
@pytest.mark.usefixtures("endings")
def test_endings(ending: str, code: ExitCode, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["endings", "one", ending]) == code
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith(said)
    assert "Traceback" not in streams.err


@pytest.mark.usefixtures("endings")
def test_out_of_memory_of_torch(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    for error, amount in (
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has"), "20.00 GiB"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 400 bytes."), "400 bytes"),
    ):

        def out_of_memory(_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(program, "get_command", out_of_memory)
        assert run(["train"]) == ExitCode.OUT_OF_MEMORY
        assert capsys.readouterr().err.startswith(f"error: Out of memory: {amount} could not be allocated.\n")


@pytest.mark.parametrize("words", [["--debug", "endings", "one", "bug"], ["endings", "one", "bug", "--debug"]])
@pytest.mark.usefixtures("endings")
def test_debug_shows_the_traceback_from_anywhere(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == ExitCode.UNEXPECTED
    said = capsys.readouterr().err
    assert "Traceback (most recent call last)" in said
    assert "error: Unexpected ZeroDivisionError" in said


@pytest.mark.usefixtures("endings")
def test_debug_keeps_the_exit_code_of_a_users_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["endings", "one", "user", "--debug"]) == ExitCode.INPUT
    assert "Traceback" in capsys.readouterr().err


def test_debug_after_two_dashes_is_an_argument() -> None:
    assert program._take_debug(["a", "--", "--debug"]) == (["a", "--", "--debug"], False)
    assert program._take_debug(["a", "--debug", "--", "b"]) == (["a", "--", "b"], True)


# ---- failures of a command that was asked for JSON


def failure(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The one JSON object that a failed command leaves, on the last line of stderr."""
    streams = capsys.readouterr()
    assert streams.out == ""
    document: dict[str, Any] = json.loads(streams.err.splitlines()[-1])
    return document


@pytest.mark.parametrize(
    ("words", "code", "facts"),
    [
        (["tran", "--json"], 2, {"what": "There is no command 'tran'.", "nearest": "train"}),
        (["endings", "one", "user", "--json"], 3, {"where": "a.toml:3", "nearest": "b", "hint": "try it"}),
        (["endings", "one", "print", "--pairs", "0", "--json"], 2, {"expected": "a whole number, at least 1"}),
        (["endings", "one", "bug", "--json"], 1, {"what": "Unexpected ZeroDivisionError: by [nothing]"}),
        (["endings", "one", "memory", "--json"], 5, {"what": "Out of memory."}),
        (["endings", "one", "interrupt", "--json"], 130, {"what": "Interrupted.", "hint": None}),
        (["endings", "one", "kept", "--json"], 130, {"what": "Nothing is lost.", "hint": "go on"}),
        (["endings", "one", "bug", "--debug", "--json"], 1, {"what": "Unexpected ZeroDivisionError: by [nothing]"}),
    ],
)
@pytest.mark.usefixtures("endings")
def test_failure_as_json(
    words: list[str], code: int, facts: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == code
    found = failure(capsys)
    assert (found["schema"], found["exit_code"]) == ("attnres.error/1", code)
    [error] = found["errors"]
    assert set(error) == {"what", "where", "expected", "nearest", "hint"}
    assert {key: error[key] for key in facts} == facts


@pytest.mark.usefixtures("endings")
def test_several_faults_are_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["endings", "one", "two", "--json"]) == ExitCode.INPUT
    assert [error["what"] for error in failure(capsys)["errors"]] == ["First.", "Second."]


# One failing call of every command that takes --json; a new one must be entered here.
FAILING: dict[str, list[str]] = {
    "train": ["no-such-preset"],
    "verify": ["no-such-preset"],
    "compare": ["no-such-run", "nor-this"],
    "report": ["no-such-run", "nor-this"],
    "reproduce": ["--scale", "no-such-plan"],
    "sweep depth-width": ["no-such-preset"],
    "sweep resume": ["no-such-sweep"],
    "sweep residuals": ["no-such-preset"],
    "sweep ablations": ["no-such-preset"],
    "sweep blocks": ["no-such-preset"],
    "sweep depth": ["no-such-preset"],
    "sweep horizon": ["no-such-preset"],
    "sweep scaling": ["no-such-preset"],
    "sweep hops": ["no-such-preset"],
    "sweep run": ["no-such-file.toml"],
    "sweep status": ["no-such-sweep"],
    "sweep show": ["no-such-sweep"],
    "sweep ls": ["extra"],
    "tune": ["no-such-preset"],
    "study new": ["no-such-preset", "--arms", "prenorm,rezero"],
    "study run": ["no-such-study"],
    "study show": ["no-such-study"],
    "study ls": ["extra"],
    "demo": ["--set", "model.d_modle=3"],
    "doctor": ["extra"],
    "presets ls": ["extra"],
    "presets show": ["no-such-preset"],
    "presets cp": ["no-such-preset", "x.toml"],
    "presets check": ["--no-such-option"],
    "presets diff": ["cpu-tiny", "no-such-preset"],
    "plan": ["no-such-preset"],
    "data prepare": ["no-such-preset"],
    "data inspect": ["no-such-preset"],
    "data train-tokenizer": ["-o", "x"],
    "watch": ["no-such-run"],
    "runs ls": ["extra"],
    "runs show": ["no-such-run"],
    "bench": ["no-such-preset"],
    "probe": ["no-such-run"],
    "figures": ["no-such-run"],
    "generate": ["no-such-run"],
}


def lines_that_take_json() -> set[str]:
    found = set()
    for name in program.COMMANDS:
        command = program.load_command(name)
        for line, each in [(name, command), *((f"{name} {sub}", it) for sub, it in _subcommands(command))]:
            if any("--json" in parameter.opts for parameter in each.params):
                found.add(line)
    return found


def _subcommands(command: Any) -> list[tuple[str, Any]]:
    return list(getattr(command, "commands", {}).items())


def test_every_command_that_takes_json_is_made_to_fail_below() -> None:
    assert set(FAILING) == lines_that_take_json()


@pytest.mark.parametrize("line", FAILING)
def test_every_command_fails_in_json(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = run([*line.split(), *FAILING[line], "--json"])
    assert code in (ExitCode.USAGE, ExitCode.INPUT)
    found = failure(capsys)
    assert found["exit_code"] == code
    assert found["errors"][0]["what"]
    assert not list(tmp_path.iterdir())


def test_a_size_that_no_longer_fits_is_shown_where_the_user_changed_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "cpu-tiny", "--set", "model.d_model=63", "--json"]) == ExitCode.INPUT
    (error,) = json.loads(capsys.readouterr().err)["errors"]
    assert error["where"].startswith("--set model.d_model=63, ")
    assert error["where"].endswith("cpu-tiny.toml:10")
    assert error["expected"] == "d_model = 56 or 64, or an even head_dim given"


def test_a_key_that_is_given_twice_is_named_with_its_first_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text('extends = "cpu-tiny"\n[model]\nd_model = 32\nnum_heads = 2\nd_model = 64\n')
    assert run(["plan", "mine.toml", "--json"]) == ExitCode.INPUT
    (error,) = json.loads(capsys.readouterr().err)["errors"]
    assert (error["what"], error["where"]) == ("'model.d_model' is given a second time.", "mine.toml:5")
    assert error["expected"] == "one of the two; the first one is mine.toml:3"
