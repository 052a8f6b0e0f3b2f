"""Every key that a preset may hold and the values to choose from, read off the schema's source without importing it.

A shell waits for completions at every press of the tab key; importing the schema takes pydantic, and the schemes torch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from attnres_cli import discovery

_SCHEMA = "attnres_cli.preset.schema"
# Sections that a user extends by adding a file; that file's Config has the section's further keys.
_EXTENDED = {"residual": "residual.schemes", "data": "data.corpora"}


def keys_and_choices() -> dict[str, tuple[str, ...]]:
    """ "section.key" → its values as --set takes them, empty where any number, text or list may stand."""
    found: dict[str, list[str]] = {}
    for section, class_name in _sections():
        places = [(_SCHEMA, class_name)]
        if package := _EXTENDED.get(section):
            files = (name.replace("-", "_") for name in discovery.names(package))
            places += [(f"attnres_cli.{package}.{name}", "Config") for name in files]
        for module, name in places:
            for key, choices in _keys_of(module, name):
                values = found.setdefault(f"{section}.{key}", [])
                values += [each for each in choices if each not in values]
    return {key: tuple(values) for key, values in found.items()}


def _sections() -> Iterator[tuple[str, str]]:
    """(section, name of its class) of the schema's SECTIONS."""
    for node in _tree(_SCHEMA).body:
        if (
            isinstance(node, ast.AnnAssign)
            and ast.unparse(node.target) == "SECTIONS"
            and isinstance(node.value, ast.Dict)
        ):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Name):
                    yield str(key.value), value.id


def _keys_of(module: str, class_name: str) -> Iterator[tuple[str, list[str]]]:
    """(key, choices) of a section's class, those of its bases first."""
    for home, key, said in _annotated(module, class_name):
        annotation = ast.unparse(said.annotation)
        if not annotation.startswith("ClassVar"):
            yield key, [] if _is_list(annotation) else list(_choices(said.annotation, home))


def scheme_defaults(scheme: str) -> dict[str, Any]:
    """The keys that this scheme adds to [residual], each with its default, where that is a plain value; empty for a
    scheme that is not here."""
    package = _EXTENDED["residual"]
    if scheme not in discovery.names(package):
        return {}
    return dict(_defaults_of(f"attnres_cli.{package}.{scheme.replace('-', '_')}", "Config"))


def _defaults_of(module: str, class_name: str) -> Iterator[tuple[str, Any]]:
    """(key, default) of a section's class, those of its bases first, so that what a class says itself holds."""
    for _, key, said in _annotated(module, class_name):
        if isinstance(said.value, ast.Call) and ast.unparse(said.value.func) == "Field":
            arguments = said.value.args
            if arguments and isinstance(arguments[0], ast.Constant):
                yield key, arguments[0].value


def _annotated(module: str, class_name: str) -> Iterator[tuple[str, str, ast.AnnAssign]]:
    """(module where it stands, key, its line) of everything that a class annotates, that of its bases first."""
    found = next(
        (node for node in _tree(module).body if isinstance(node, ast.ClassDef) and node.name == class_name), None
    )
    if found is None:
        home = _home(module, class_name)
        if home is not None:
            yield from _annotated(home, class_name)
        return
    for base in found.bases:
        if isinstance(base, ast.Name):
            yield from _annotated(module, base.id)
    for node in found.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield module, node.target.id, node


def _home(module: str, name: str) -> str | None:
    """The module of this program from which `module` imports `name`."""
    for node in _tree(module).body:
        own = isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attnres_cli.")
        if isinstance(node, ast.ImportFrom) and own and any(alias.name == name for alias in node.names):
            return node.module
    return None


def _choices(annotation: ast.expr, module: str) -> Iterator[str]:
    """Values to choose from: those of Literal, true and false, and the files of the folder that MemberOf names."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name) and node.id == "bool":
            yield from ("true", "false")
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
            yield from (str(each.value) for each in ast.walk(node.slice) if isinstance(each, ast.Constant))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "MemberOf":
            also = [each.value for each in node.keywords if each.arg == "also"]
            yield from (str(each.value) for part in also for each in ast.walk(part) if isinstance(each, ast.Constant))
            yield from discovery.names(_text(node.args[0], module))


def _is_list(annotation: str) -> bool:
    return "tuple[" in annotation or "list[" in annotation


def _text(node: ast.expr, module: str) -> str:
    """The text of a constant, or of a name that the module gives one."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    return next(
        str(each.value.value)
        for each in _tree(module).body
        if isinstance(each, ast.Assign)
        and ast.unparse(each.targets[0]) == ast.unparse(node)
        and isinstance(each.value, ast.Constant)
    )


@cache
def _tree(module: str) -> ast.Module:
    path = discovery.PACKAGE_ROOT.parent.joinpath(*module.split(".")).with_suffix(".py")
    return ast.parse(Path(path).read_text(encoding="utf-8"))
