"""Which presets and overlays there are: the project's (./presets), the user's, and the built-in ones; the first wins.

Overlays, partial presets to put on others, live in the subfolders `overlays` and `ablations`; those of `ablations` are
rows of a paper's table, which their first lines name. Only folders and first lines are read, so that listing and
completion are instant.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attnres_cli.errors import UserError, nearest_name
from attnres_cli.shipped import shipped_folder

Kind = Literal["preset", "overlay"]
FOLDERS_OF_OVERLAYS = ("overlays", "ablations")
LONGEST_CHAIN = 20  # presets that extend one another, followed to explain an error


@dataclass(frozen=True)
class PaperRow:
    """A row of a table (or point of a figure) of the paper: where it stands, its name there, and its loss in nats."""

    table: str
    row: str
    validation_loss: float


@dataclass(frozen=True)
class Entry:
    """One preset or overlay. place: "project", "user" or "built in". shadows: files of the same name that it hides."""

    name: str
    kind: Kind
    place: str
    path: Path
    shadows: tuple[Path, ...] = ()

    @property
    def summary(self) -> str:
        """The first comment line of the file, without its #; empty where it does not begin with one."""
        try:
            with self.path.open(encoding="utf-8-sig", errors="replace") as file:
                first = next((line.strip() for line in file if line.strip()), "")
        except OSError:
            return ""
        return first.lstrip("#").strip() if first.startswith("#") else ""

    @property
    def is_ablation(self) -> bool:
        """Whether it is an overlay that stands for a row of a paper, or for a control of one."""
        return self.kind == "overlay" and self.path.parent.name == "ablations"

    @property
    def paper_rows(self) -> tuple[PaperRow, ...]:
        """What its comment lines `# paper: {table = …, row = …, validation_loss = …}` say. UserError for one that
        cannot be read."""
        try:
            lines = self.path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
        except OSError:
            return ()
        said = [(n, line.removeprefix("# paper:")) for n, line in enumerate(lines, 1) if line.startswith("# paper:")]
        return tuple(_paper_row(text, f"{shown(self.path)}:{number}") for number, text in said)

    @property
    def shadowing_note(self) -> str | None:
        """A sentence about the files that this one hides, None where there is none."""
        if not self.shadows:
            return None
        return f"{self.kind} '{self.name}' is {shown(self.path)}; it hides {', '.join(map(shown, self.shadows))}."


def preset_folders() -> tuple[tuple[str, Path], ...]:
    """(place, folder), the first one wins; a folder need not exist."""
    configuration = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    built_in = shipped_folder("presets")
    places = [("project", Path("presets")), ("user", configuration / "attnres" / "presets"), ("built in", built_in)]
    # Inside a clone of the program, ./presets is the built-in folder.
    return tuple((place, folder) for place, folder in places if place == "built in" or not _same(folder, built_in))


def entries(kind: Kind = "preset") -> tuple[Entry, ...]:
    """All presets (or overlays), by name; of several with one name the one that wins, knowing what it hides."""
    found: dict[str, list[tuple[str, Path]]] = {}
    for place, folder in preset_folders():
        for path in sorted(_files(folder, kind)):
            found.setdefault(path.stem, []).append((place, path))
    return tuple(
        Entry(name, kind, files[0][0], files[0][1], tuple(path for _, path in files[1:]))
        for name, files in sorted(found.items())
    )


def names(kind: Kind = "preset") -> tuple[str, ...]:
    """Names of all presets (or overlays), sorted."""
    return tuple(entry.name for entry in entries(kind))


def find(name: str, kind: Kind = "preset", *, where: str | None = None, below: Path | None = None) -> Entry:
    """The preset (or overlay) of this name.

    below: the file that asks for its parent. By its own name it means the one that it hides (a project's `cpu-small`
    that extends `cpu-small`), and it is never proposed itself.
    Raises UserError with the nearest name; says so where the name is one of the other kind, or of a file here.
    """
    known = {each.name: each if below is None else _below(each, below) for each in entries(kind)}
    entry = known.get(name)
    if entry is None and name in known:
        raise UserError(
            f"{below and shown(below)} extends itself in a circle: it hides no other {kind} '{name}'.",
            where=where,
            expected=f"another {kind}, or no extends",
        )
    if entry is None:
        others = [other for other, each in known.items() if each is not None]
        raise UserError(
            f"There is no {kind} '{name}'.",
            where=where,
            expected=_expected(name, kind, others),
            nearest=nearest_name(name, others),
            hint=_hint(name, kind),
        )
    return entry


def find_either(ref: str, *, where: str | None = None) -> Entry:
    """The preset, else the overlay, of this name, or the file at this path. where: the argument that says it, for the
    error. Raises UserError."""
    if is_path(ref):
        path = Path(ref).expanduser()
        if not path.exists():
            raise no_such_file(path, where)
        kind: Kind = "overlay" if path.resolve().parent.name in FOLDERS_OF_OVERLAYS else "preset"
        return Entry(path.stem, kind, "file", path)
    return find(ref, "overlay" if ref in names("overlay") and ref not in names("preset") else "preset", where=where)


def no_such_file(path: Path, where: str | None = None, *, below: Path | None = None) -> UserError:
    """The error about a preset's path that leads nowhere, with the nearest file beside it; never `below`, which asks
    for its parent."""
    found = path.parent.glob("*.toml") if path.parent.is_dir() else ()
    neighbours = [each.stem for each in found if below is None or not _same(each, below)]
    nearest = nearest_name(path.stem, neighbours)
    return UserError(
        f"There is no file {shown(path)}.",
        where=where,
        expected="a preset's TOML file, or a name of `attnres presets ls`",
        nearest=shown(path.parent / f"{nearest}.toml") if nearest else None,
    )


def is_path(ref: str | Path) -> bool:
    """Whether `ref` is a path rather than a name: a Path, or text with a folder or the ending .toml in it."""
    return isinstance(ref, Path) or ref.endswith(".toml") or "/" in ref or os.sep in ref


def shown(path: Path) -> str:
    """The path as a user would type it: relative where it lies below the working directory."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _below(entry: Entry, asking: Path) -> Entry | None:
    """`entry`, or, where `asking` is one of its files, the first of those that file hides, None where there is none."""
    files = [entry.path, *entry.shadows]
    position = next((index for index, path in enumerate(files) if _same(path, asking)), None)
    if position is None:
        return entry
    rest = files[position + 1 :]
    return Entry(entry.name, entry.kind, "", rest[0], tuple(rest[1:])) if rest else None


def _files(folder: Path, kind: Kind) -> Iterator[Path]:
    for each in (".",) if kind == "preset" else FOLDERS_OF_OVERLAYS:
        yield from (folder / each).glob("*.toml")


def _paper_row(text: str, where: str) -> PaperRow:
    try:
        return PaperRow(**tomllib.loads(f"paper = {text}")["paper"])
    except (tomllib.TOMLDecodeError, TypeError) as error:
        expected = '# paper: {table = "Table 4", row = "AttnRes Full", validation_loss = 1.737}'
        raise UserError(f"This line about the paper cannot be read: {error}.", where=where, expected=expected) from None


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def is_partial(path: Path, depth: int = 0) -> bool:
    """Whether a file among the presets is none by itself: neither it nor what it extends says a key that [model]
    requires. A file that cannot be read is not partial: its own error will tell."""
    from attnres_cli.preset.schema import SECTIONS  # pydantic, needed for the error alone

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return False
    model, extends = document.get("model", {}), document.get("extends")
    fields = SECTIONS["model"].model_fields
    if not isinstance(model, dict) or any(key in fields and fields[key].is_required() for key in model):
        return False
    if not isinstance(extends, str) or not extends:
        return True
    named = next((_below(entry, path) for entry in entries() if entry.name == extends), None)
    if is_path(extends):
        parent: Path | None = path.parent / Path(extends).expanduser()
    else:
        parent = named.path if named is not None else None
    # A circle of files that extend one another has an error of its own.
    return parent is not None and depth < LONGEST_CHAIN and is_partial(parent, depth + 1)


def _expected(name: str, kind: Kind, others: Sequence[str]) -> str:
    if kind == "preset" and name in names("overlay"):
        return f"a whole preset; '{name}' is an overlay, to be put on one"
    if kind == "overlay" and name in names("preset"):
        path = find(name, "preset").path
        if is_partial(path):
            return f"an overlay; {shown(path)} is a partial preset outside the folder overlays, named by its path"
        return f"an overlay; '{name}' is a whole preset"
    return ", ".join(others) or f"a {kind} in ./presets"


def _hint(name: str, kind: Kind) -> str:
    if kind == "preset" and name in names("overlay"):
        return f"cpu-small --overlay {name}"
    if kind == "preset" and Path(name).is_file():
        return f"./{name}"
    if kind == "overlay" and name in names("preset") and is_partial(path := find(name, "preset").path):
        return f"--overlay {shown(path)}, or move it to {shown(path.parent / 'overlays' / path.name)}"
    return "attnres presets ls" if kind == "preset" else "attnres presets ls --overlays"
