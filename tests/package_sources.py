"""What tests of the package's sources ask of a file, from one look at it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "attnres_cli"
MODULES = sorted(PACKAGE.rglob("*.py"))
SCHEMES = {path.stem.replace("_", "-") for path in (PACKAGE / "residual" / "schemes").glob("[!_]*.py")}
NAME_OF_A_SCHEME = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(SCHEMES))})(?![\w-])")
OWNERS_OF_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Facts:
    """imports: (line, dotted module) of every import, those inside functions included. at_top: of those outside.
    strings: (line, value) of every string that has the name of a scheme as a word, but for docstrings."""

    imports: tuple[tuple[int, str], ...]
    at_top: tuple[tuple[int, str], ...]
    strings: tuple[tuple[int, str], ...]


@cache
def facts(path: Path) -> Facts:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes: list[ast.AST] = []
    strings: list[ast.Constant] = []
    docstrings: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and NAME_OF_A_SCHEME.search(node.value):
                strings.append(node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            nodes.append(node)
        elif isinstance(node, OWNERS_OF_DOCSTRINGS) and node.body and isinstance(node.body[0], ast.Expr):
            docstrings.add(node.body[0].value)
    return Facts(
        imports=tuple(_imported(path, nodes)),
        at_top=tuple(_imported(path, tree.body)),
        strings=tuple((node.lineno, str(node.value)) for node in strings if node not in docstrings),
    )


def _imported(path: Path, nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides which room it reaches into"
            yield node.lineno, node.module or ""
            # `from attnres_cli import runs` names a room, `from attnres_cli.errors import UserError` does not.
            if node.module == "attnres_cli":
                yield from ((node.lineno, f"attnres_cli.{alias.name}") for alias in node.names)
