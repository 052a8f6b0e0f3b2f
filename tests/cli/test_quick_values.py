"""Values of the command line read without pydantic are the values that typer reads."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import typer.core
from typer.main import get_command

from attnres_cli.cli import quick_values


class Colour(enum.Enum):
    RED = "red"


app = typer.Typer()
seen: dict[str, Any] = {}


@app.command()
def command(
    words: list[str],
    text: str = "default",
    path: Path = Path("runs"),
    maybe: Path | None = None,
    many: Annotated[list[str] | None, typer.Option()] = None,
    paths: Annotated[list[Path] | None, typer.Option()] = None,
    flag: bool = False,
    number: int = 3,
    ratio: float = 0.5,
    colour: Colour = Colour.RED,
    there: Annotated[Path | None, typer.Option(exists=True)] = None,
    fromenv: Annotated[bool, typer.Option(envvar="QUICK_VALUES_FLAG")] = False,
    parsed: Annotated[str, typer.Option(parser=lambda word: word.upper())] = "x",
) -> None:
    seen.update(locals())


def call(words: list[str]) -> dict[str, Any]:
    seen.clear()
    get_command(app).main(args=words, standalone_mode=False)
    return dict(seen)


LINES = [
    ["a"],
    ["a", "b", "--text", "t", "--path", "p/q", "--maybe", "m", "--many", "1", "--many", "2", "--paths", "x"],
    ["a", "--flag", "--number", "7", "--ratio", "1e-3", "--colour", "red", "--there", ".", "--parsed", "y"],
]


@pytest.mark.parametrize("line", LINES)
def test_the_same_values_as_typer_itself(line: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUICK_VALUES_FLAG", "1")
    quick = call(line)
    assert getattr(typer.core.build_runtime_param, "is_quick", False), "installed by cli/app.py"  # type: ignore[attr-defined]
    own = next(
        cell.cell_contents
        for cell in typer.core.build_runtime_param.__closure__  # type: ignore[attr-defined]
        if callable(cell.cell_contents)
    )
    monkeypatch.setattr(typer.core, "build_runtime_param", own)
    assert call(line) == quick
    assert quick["fromenv"] is True


@pytest.mark.parametrize(
    "line",
    [["a", "--number", "x"], ["a", "--colour", "blue"], ["a", "--there", "/no/such/file"], ["a", "--ratio", "one"]],
)
def test_what_typer_checks_is_still_checked(line: list[str]) -> None:
    with pytest.raises(Exception, match="(?i)valid|exist|one of|number|integer"):
        call(line)


def test_installing_twice_changes_nothing() -> None:
    before = typer.core.build_runtime_param  # type: ignore[attr-defined]
    quick_values.install()
    assert typer.core.build_runtime_param is before  # type: ignore[attr-defined]
