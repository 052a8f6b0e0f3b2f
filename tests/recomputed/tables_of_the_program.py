"""Every table that the program can build, found in its source: where it is built and under which key.

The key is the first argument of `Table(…)`. Where it is a parameter, whoever calls that function names the key; a
variable of a loop over constants, or a constant of the module, is worked out; anything else stands for itself as text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

Found = set[tuple[str, str]]


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def tables_below(package: Path) -> Found:
    """(file below the package, key) of every table."""
    texts = {path.relative_to(package).as_posix(): path.read_text() for path in package.rglob("*.py")}
    found: Found = set()
    builders, known = {("Table", "")}, Found()
    while builders - known:
        new, known = builders - known, set(builders)
        for file, text in texts.items():
            names = {name for name, of_file in new if of_file in ("", file) and f"{name}(" in text}
            module = parsed(package / file) if names else ast.Module([], [])
            for call, around in _calls(module, names):
                key = _key_of(call)
                parameter_of = _function_with(key, around)
                if parameter_of is None:
                    found |= {(file, value) for value in _values(key, module, around)}
                else:
                    builders.add((parameter_of, file if parameter_of.startswith("_") else ""))
    return found


def columns_of(file: Path) -> set[str]:
    """The keys of all columns of numbers that are written down in a file."""
    found = set()
    for call, _ in _calls(parsed(file), {"Column"}):
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        kind = named.get("kind", call.args[3] if len(call.args) > 3 else None)
        if isinstance(kind, ast.Constant) and kind.value != "text" and isinstance(call.args[0], ast.Constant):
            found.add(str(call.args[0].value))
    return found


def words_of(file: Path) -> set[str]:
    """Every text in the code of a file, whole or a part of an f-string, and every name of an argument in a call."""
    nodes = list(ast.walk(parsed(file)))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return texts | {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg is not None}


def _calls(module: ast.Module, names: set[str]) -> Iterator[tuple[ast.Call, list[ast.AST]]]:
    """Calls of functions of these names, with everything around them from the outside to the inside."""

    def walk(node: ast.AST, around: list[ast.AST]) -> Iterator[tuple[ast.Call, list[ast.AST]]]:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node, around
        for child in ast.iter_child_nodes(node):
            yield from walk(child, [*around, node])

    return walk(module, [])


def _key_of(call: ast.Call) -> ast.expr:
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    return named["key"] if "key" in named else call.args[0]


def _function_with(key: ast.expr, around: list[ast.AST]) -> str | None:
    """The function whose parameter the key is."""
    for node in reversed(around):
        if isinstance(node, ast.FunctionDef) and isinstance(key, ast.Name):
            arguments = (*node.args.args, *node.args.kwonlyargs)
            return node.name if any(argument.arg == key.id for argument in arguments) else None
    return None


def _values(expression: ast.expr, module: ast.Module, around: list[ast.AST]) -> set[str]:
    """What an expression may be; its own text where that cannot be seen."""
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        return {expression.value}
    if isinstance(expression, ast.Name):
        return _of_loops(expression.id, around) or _of_module(expression.id, module) or {ast.unparse(expression)}
    if isinstance(expression, ast.JoinedStr):
        parts = [_values(_inside(part), module, around) for part in expression.values]
        names = {ast.unparse(_inside(part)) for part in expression.values if isinstance(part, ast.FormattedValue)}
        if not any(names & part for part in parts):
            return {"".join(each) for each in product(*parts)}
    return {ast.unparse(expression)}


def _inside(part: ast.expr) -> ast.expr:
    return part.value if isinstance(part, ast.FormattedValue) else part


def _of_loops(name: str, around: list[ast.AST]) -> set[str]:
    """The constants that a loop gives to a variable."""
    for node in around:
        if not isinstance(node, ast.For) or not isinstance(node.iter, (ast.Tuple, ast.List)):
            continue
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        for place, target in enumerate(targets):
            if isinstance(target, ast.Name) and target.id == name:
                rows = [row.elts if isinstance(row, ast.Tuple) else [row] for row in node.iter.elts]
                return {row[place].value for row in rows if isinstance(row[place], ast.Constant)}  # type: ignore[attr-defined]
    return set()


def _of_module(name: str, module: ast.Module) -> set[str]:
    """A constant of the module."""
    return {
        node.value.value
        for node in module.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    }
