"""Corpus `stdlib`: the source of the interpreter's own standard library, real text that is on every machine.

Nothing is downloaded and nothing redistributed: a user reads a copy that is there already. The text differs between
versions of Python, so runs record its hash.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from attnres_cli.data.documents import Document
from attnres_cli.data.file_patterns import read_file
from attnres_cli.errors import Fault, UserError, nearest_name
from attnres_cli.preset.schema import DataConfig

# Tests repeat themselves, encodings and pydoc_data are tables, lib2to3 and idlelib are gone from newer versions. The
# folders of installed packages lie inside the standard library's own. `config-…` and `_sysconfigdata…` describe the
# machine that built the interpreter, and would give every machine a hash of its own.
_LEFT_OUT_FOLDERS = frozenset(
    {"test", "tests", "lib2to3", "idlelib", "pydoc_data", "encodings", "site-packages", "dist-packages", "__pycache__"}
)
_LEFT_OUT_PREFIXES = ("config-", "_sysconfigdata")


GIVES = Document


class Config(DataConfig):
    """[data] with corpus = "stdlib"."""

    corpus: Literal["stdlib"] = Field(description="stdlib: source of the interpreter's standard library, about 9 MB")
    packages: tuple[str, ...] = Field(
        (), description="installed packages, by import name, whose .py sources are added (torch: 46 MB, sympy: 26 MB)"
    )


def missing(config: Config, base_folder: Path) -> Iterator[tuple[str, Fault]]:
    """(key, fault) where this Python has no sources of its library, and for every package that is not installed."""
    library = Path(sysconfig.get_paths()["stdlib"])
    if next(_python_files(library, everything=False), None) is None:
        yield from (("corpus", fault) for fault in _no_sources("the standard library", str(library)).faults)
    for package in dict.fromkeys(config.packages):
        try:
            next(_package_sources(package), None)
        except UserError as error:
            yield from (("packages", fault) for fault in error.faults)


def text_size(config: Config, base_folder: Path) -> tuple[int, int]:
    """(bytes, documents), by the sizes of the files. Raises UserError as `documents` does, OSError as the disk does."""
    sizes = [path.stat().st_size for _, path in _files(config)]
    return sum(sizes), sum(size > 0 for size in sizes)


def documents(config: Config, base_folder: Path) -> Iterator[Document]:
    """Every .py file of the standard library, sorted by name, then those of each package in the order given.

    Raises UserError naming the corpus `text` where the sources are missing (a slim or zipped Python).
    """
    for name, path in _files(config):
        text = read_file(name, path)
        if text:  # many an __init__.py is empty, which nobody needs to be told
            yield Document(name, text)


def _files(config: Config) -> Iterator[tuple[str, Path]]:
    """(name as shown, path) of every file, in the order of `documents`."""
    yield from _sources(
        Path(sysconfig.get_paths()["stdlib"]), "the standard library", prefix="stdlib", everything=False
    )
    for package in dict.fromkeys(config.packages):
        yield from _package_sources(package)


def _package_sources(package: str) -> Iterator[tuple[str, Path]]:
    try:
        spec = importlib.util.find_spec(package) if package.isidentifier() else None
    except ValueError:  # the program itself, as __main__
        spec = None
    if spec is None:
        raise UserError(
            f"data.packages: there is no installed package '{package}'.",
            expected="import names of installed packages, such as torch or sympy",
            nearest=nearest_name(package, _installed_packages()),
        )
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    if folders:
        for folder in folders:
            yield from _sources(folder, f"the package {package}", prefix=package, everything=True)
    elif spec.origin and spec.origin.endswith(".py"):
        yield f"{package}.py", Path(spec.origin)
    else:
        raise _no_sources(f"the package {package}", str(spec.origin))


def _sources(folder: Path, what: str, *, prefix: str, everything: bool) -> Iterator[tuple[str, Path]]:
    """The .py files below `folder`, sorted; `everything`: those in folders left out of the standard library, too."""
    found = False
    for name in sorted(_python_files(folder, everything)):
        found = True
        yield f"{prefix}/{name}", folder / name
    if not found:
        raise _no_sources(what, str(folder))


def _python_files(folder: Path, everything: bool) -> Iterator[str]:
    left_out = frozenset({"__pycache__"}) if everything else _LEFT_OUT_FOLDERS
    prefixes = () if everything else _LEFT_OUT_PREFIXES
    for parent, folders, files in os.walk(folder):
        # In place: os.walk looks at this very list to decide where to go next.
        folders[:] = [name for name in folders if name not in left_out and not name.startswith(prefixes)]
        below = os.path.relpath(parent, folder).replace(os.sep, "/")
        for name in files:
            if name.endswith(".py") and not name.startswith(prefixes):
                yield name if below == "." else f"{below}/{name}"


@functools.cache
def _installed_packages() -> tuple[str, ...]:
    """Their import names, in a look through what is installed that takes a tenth of a second: one for all packages that
    are not there."""
    from importlib.metadata import packages_distributions

    return tuple(packages_distributions())


def _no_sources(what: str, where: str) -> UserError:
    return UserError(
        f"This Python has no source files of {what}.",
        where=where,
        expected="a Python installed with its sources (slim and zipped ones leave them out)",
        hint='your own files instead: [data] corpus = "text", files = ["folder/**/*.txt"]',
    )
