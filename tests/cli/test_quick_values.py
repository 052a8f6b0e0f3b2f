"""Values of the command line read without pydantic are the values that typer reads."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command

from attnres_cli.cli.quick_values import read_quickly


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
    ranged: Annotated[int, typer.Option(min=1, max=5)] = 2,
    called: Annotated[str | None, typer.Option(callback=lambda word: f"{word}, called")] = None,
) -> None:
    seen.update(locals())


def call(words: list[str], *, quickly: bool) -> dict[str, Any]:
    seen.clear()
    parser = get_command(app)
    if quickly:
        read_quickly(parser)
    parser.main(args=words, standalone_mode=False)
    return dict(seen)


LINES = [
    ["a"],
    ["a", "b", "--text", "t", "--path", "p/q", "--maybe", "m", "--many", "1", "--many", "2", "--paths", "x"],
    ["a", "--flag", "--number", "7", "--ratio", "1e-3", "--colour", "red", "--there", ".", "--parsed", "y"],
    ["a", "--number", "7.0", "--ranged", "3", "--ratio", "inf"],
]


@pytest.mark.parametrize("line", LINES)
def test_the_same_values_as_typer_itself(line: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUICK_VALUES_FLAG", "1")
    quick = call(line, quickly=True)
    assert call(line, quickly=False) == quick
    assert quick["fromenv"] is True


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["a", "--number", "x"],
        ["a", "--ranged", "0"],
        ["a", "--ranged", "6"],
        ["a", "--colour", "blue"],
        ["a", "--there", "/no/such/file"],
        ["a", "--ratio", "one"],
    ],
)
def test_what_typer_refuses_is_refused_with_its_error(line: list[str]) -> None:
    with pytest.raises(Exception) as quick:
        call(line, quickly=True)
    with pytest.raises(type(quick.value)) as own:
        call(line, quickly=False)
    assert str(quick.value) == str(own.value)


def test_callbacks_see_the_value() -> None:
    assert call(["a", "--called", "x"], quickly=True)["called"] == "x, called"
    assert call(["a"], quickly=True)["called"] == "None, called"
