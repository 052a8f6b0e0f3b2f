"""A command that ends in every way a command can end, for tests of what the program makes of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from types import ModuleType
from typing import Annotated

import pytest
import typer

from attnres_cli.cli.app import COMMANDS
from attnres_cli.cli.options import (
    DEFAULT_RUNS_DIR,
    JsonOption,
    PresetArgument,
    RunsArgument,
    RunsRootOption,
    SetOption,
)
from attnres_cli.errors import ExitCode, Fault, Interrupted, UserError
from attnres_cli.sweep import calibration


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


endings_app = typer.Typer()


@endings_app.command()
def one(
    preset: PresetArgument,
    sets: SetOption = None,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    as_json: JsonOption = False,
    pairs: Annotated[int, typer.Option(min=1, help="How many.")] = 3,
    share: Annotated[float, typer.Option(min=0, max=1, help="How much.")] = 0.5,
    colour: Annotated[Colour, typer.Option(help="Which.")] = Colour.RED,
) -> None:
    endings: dict[str, Callable[[], object]] = {
        "print": lambda: print(sets, runs_dir, as_json, pairs, colour.value),
        "user": lambda: _raise(UserError("No [bold]such[/bold] run.", where="a.toml:3", nearest="b", hint="try it")),
        "two": lambda: _raise(UserError([Fault("First."), Fault("Second.", where="b.toml:4")])),
        "bug": lambda: _raise(ZeroDivisionError("by [nothing]")),
        "memory": lambda: _raise(MemoryError()),
        "interrupt": lambda: _raise(KeyboardInterrupt()),
        "kept": lambda: _raise(Interrupted("Nothing is lost.", hint="go on")),
        "abort": lambda: _raise(typer.Abort()),
        "exit": lambda: _raise(typer.Exit(ExitCode.DIVERGED)),
        "bad": lambda: _raise(typer.BadParameter("not this")),
    }
    endings[preset]()


@endings_app.command()
def two(runs: RunsArgument) -> None:
    """Another one."""


@pytest.fixture(autouse=True)
def _steps_are_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices of sweeps rest on a median of several steps, which here would take as long as the trainings themselves."""
    monkeypatch.setattr(calibration, "ROUNDS", 1)


@pytest.fixture
def endings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command `endings` that ends in every way a command can end."""
    module = ModuleType("attnres_cli.cli.endings_of_tests")
    module.app = endings_app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "attnres_cli.cli.endings_of_tests", module)
    monkeypatch.setitem(COMMANDS, "endings", ("endings_of_tests", "Ends in every way.", "Tests"))


def _raise(error: BaseException) -> None:
    raise error
