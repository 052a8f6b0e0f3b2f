"""Which files a user means by paths and globs relative to the preset's folder."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path

from attnres_cli.errors import Fault, UserError, nearest_name

_GLOB_CHARACTERS = frozenset("*?[")


def find_files(patterns: Sequence[str], base_folder: Path, *, key: str) -> list[tuple[str, Path]]:
    """(name as shown, path) of every file, in the order of the patterns, sorted within a glob, each file once.

    `**` matches folders at any depth; `~` is the home folder; hidden files need their dot spelt out.
    Raises UserError that names `key` when a pattern matches no file, or names a folder.
    """
    found: dict[Path, str] = {}
    for pattern in patterns:
        for name in _matches(pattern, base_folder, key):
            path = base_folder / name
            found.setdefault(path.resolve(), name)
    return [(name, path) for path, name in found.items()]


def missing_files(patterns: Sequence[str], base_folder: Path, *, key: str) -> Iterator[Fault]:
    """What is wrong with each pattern by itself: no such file, no match, a folder."""
    for pattern in patterns:
        try:
            for _ in _matches(pattern, base_folder, key):
                break
        except UserError as error:
            yield from error.faults


def read_file(name: str, path: Path) -> bytes:
    """The file's bytes. Raises UserError when it can't be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"The file {name} can't be read: {error.strerror}.", where=str(path)) from error


def is_pattern(text: str) -> bool:
    """Whether the text is a glob, not the path of one file."""
    return not _GLOB_CHARACTERS.isdisjoint(text)


def _matches(pattern: str, base_folder: Path, key: str) -> Iterator[str]:
    expanded = str(Path(pattern).expanduser())
    path = base_folder / expanded
    if path.is_file():  # first, so that a name with brackets in it can be given as it is
        yield expanded
        return
    if path.is_dir():
        raise UserError(
            f"{key} names the folder {pattern}, not a file.",
            where=str(path),
            expected="files, or a glob",
            hint=f'{key} = ["{pattern.rstrip("/")}/**/*.txt"]',
        )
    names = glob.glob(expanded, root_dir=base_folder, recursive=True) if is_pattern(expanded) else []
    files = sorted(name for name in names if (base_folder / name).is_file())
    if not files:
        neighbours = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        nearest = nearest_name(path.name, neighbours)
        raise UserError(
            f"{key}: {'no file matches' if is_pattern(expanded) else 'there is no file'} '{pattern}'.",
            where=str(path),
            expected="paths or globs, relative to the preset's folder",
            nearest=nearest,
        )
    yield from files
