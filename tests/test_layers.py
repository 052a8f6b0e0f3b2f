"""The rooms of the package import one another in one direction, and the quick ones stay free of slow libraries."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "attnres_cli"

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
MODULES = sorted(PACKAGE.rglob("*.py"))


def imports(path: Path, *, top_level_only: bool = False) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import in the file, those inside functions included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides which room it reaches into"
            yield node.lineno, node.module or ""
            # `from attnres_cli import runs` names a room, `from attnres_cli.errors import UserError` does not.
            if node.module == "attnres_cli":
                yield from ((node.lineno, f"attnres_cli.{alias.name}") for alias in node.names)


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
        for line, module in imports(path)
        if (room := room_of(module)) is not None and room != own and RANK[room] >= RANK[own]
    ]
    assert not wrong


def uses(path: Path, library: str) -> list[str]:
    return [
        f"{name_of(path)}:{line}"
        for line, module in imports(path)
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
        for line, module in imports(path, top_level_only=True)
        if module.split(".")[0] in SLOW
    ]
    assert not wrong


SCHEMES = {path.stem.replace("_", "-") for path in (PACKAGE / "residual" / "schemes").glob("[!_]*.py")}


def docstrings(tree: ast.AST) -> set[int]:
    """Identities of the constants that are docstrings."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    first = [node.body[0] for node in ast.walk(tree) if isinstance(node, owners) and node.body]
    return {id(each.value) for each in first if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)}


@pytest.mark.parametrize(
    "path", [path for path in MODULES if room_of_file(path) not in (None, "residual")], ids=name_of
)
def test_nothing_outside_residual_names_a_scheme(path: Path) -> None:
    """Default arms and claims live in TOML, so that a new scheme is one new file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    excused = docstrings(tree)
    wrong = [
        f"{name_of(path)}:{node.lineno} says {node.value!r}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in SCHEMES and id(node) not in excused
    ]
    assert not wrong
