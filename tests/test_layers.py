"""The rooms of the package import one another in one direction, and the quick ones stay free of slow libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.package_sources import MODULES, PACKAGE, SCHEMES, facts

# A room may import rooms of a lower rank, and itself.
RANK = {
    "errors": 0,
    "discovery": 1,
    "caches": 1,
    "notices": 1,
    "shipped": 1,
    "preset": 2,
    "runs": 2,
    "native": 2,
    "residual": 3,
    "data": 4,
    "model": 4,
    "analysis": 5,
    "report": 6,
    "train": 6,
    "bench": 7,
    "generate": 7,
    "verify": 7,
    "sweep": 8,
    "probe": 8,
    "cli": 9,
}


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "attnres_cli" and len(parts) > 1 and parts[1] in RANK else None


def room_of_file(path: Path) -> str | None:
    return room_of(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def test_every_room_has_a_rank() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    files = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert rooms | files == set(RANK)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_run_one_way(path: Path) -> None:
    own = room_of_file(path)
    if own is None:  # __main__ starts the program
        return
    wrong = [
        f"{name_of(path)}:{line} imports {module}"
        for line, module in facts(path).imports
        if (room := room_of(module)) is not None and room != own and RANK[room] >= RANK[own]
    ]
    assert not wrong


def uses(path: Path, library: str) -> list[str]:
    return [
        f"{name_of(path)}:{line}"
        for line, module in facts(path).imports
        if module == library or module.startswith(f"{library}.")
    ]


@pytest.mark.parametrize("room", ["runs", "report", "preset"])
def test_rooms_that_never_load_torch(room: str) -> None:
    assert not [place for path in (PACKAGE / room).rglob("*.py") for place in uses(path, "torch")]


def test_tables_know_nothing_of_the_terminal() -> None:
    terminal = PACKAGE / "report" / "renderers" / "_rich.py"
    files = [path for path in (PACKAGE / "report").rglob("*.py") if path != terminal]
    assert files
    assert not [place for path in files for place in uses(path, "rich")]


SLOW = ("torch", "numpy", "rich", "pydantic", "tiktoken", "safetensors")


@pytest.mark.parametrize("path", sorted((PACKAGE / "cli").glob("*.py")), ids=name_of)
def test_command_modules_import_no_slow_library(path: Path) -> None:
    """Help and completion import these modules; what a command needs, it imports when it runs."""
    wrong = [
        f"{name_of(path)}:{line} imports {module}"
        for line, module in facts(path).at_top
        if module.split(".")[0] in SLOW
    ]
    assert not wrong


@pytest.mark.parametrize(
    "path", [path for path in MODULES if room_of_file(path) not in (None, "residual")], ids=name_of
)
def test_nothing_outside_residual_names_a_scheme(path: Path) -> None:
    """Default arms and claims live in TOML, so that a new scheme is one new file."""
    said = facts(path).strings
    assert not [f"{name_of(path)}:{line} says {value!r}" for line, value in said if value in SCHEMES]
