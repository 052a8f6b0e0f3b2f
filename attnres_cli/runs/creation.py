"""A new run's folder: it has its name only when everything is in it that is needed to begin the run.

So whoever is killed while a run is prepared, however early, leaves either no run or one that can be resumed.
"""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from attnres_cli.errors import UserError, storage_trouble
from attnres_cli.runs.files import write_json, write_whole
from attnres_cli.runs.names import check_name, generated_name
from attnres_cli.runs.state import first_state


@dataclass(frozen=True)
class Start:
    """What a run begins from. preset: the TOML text as the user wrote it; resolved: the TOML text with every key;
    command: the command line that began it."""

    preset: str
    resolved: str
    preset_name: str
    command: str

    def facts(self) -> dict[str, str]:
        """What state.json keeps of it; the rest are files of their own."""
        return {"preset_name": self.preset_name, "command": self.command}


def resume_command(path: Path) -> str:
    """The command that continues the run in `path`, as a user can paste it."""
    return shlex.join(["attnres", "train", "--resume", str(path)])


def make_folder(root: Path, stem: str, name: str | None, start: Start | None) -> Path:
    """A new run directory below `root`, of a run that this process is at work on; see RunDirectory.create."""
    if name is not None:
        check_name(name)
    hidden = root / f".creating-{os.urandom(4).hex()}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        hidden.mkdir()
    except OSError as error:
        raise UserError(
            f"Runs cannot be kept in '{root}': {error.strerror}.", where="--runs-dir", expected="a folder"
        ) from error
    try:
        return _filled(hidden, root, stem, name, start)
    except BaseException as error:
        shutil.rmtree(hidden, ignore_errors=True)
        if (trouble := storage_trouble(error, root)) is None:
            raise
        raise UserError(f"{trouble[0]}. No run was begun.", where=str(root), hint=trouble[1]) from error


def _filled(hidden: Path, root: Path, stem: str, name: str | None, start: Start | None) -> Path:
    (hidden / "probes").mkdir()
    (hidden / "checkpoints").mkdir()
    if start is not None:
        write_whole(hidden / "preset.toml", start.preset)
        write_whole(hidden / "resolved.toml", start.resolved)
    while True:
        path = root / (name if name is not None else generated_name(stem))
        known = {} if start is None else {**start.facts(), "resume": resume_command(path)}
        write_json(hidden / "state.json", {**first_state(), **known})
        if _renamed(hidden, path):
            return path
        if name is not None:  # otherwise two runs of one preset in one second drew the same four digits: draw again
            raise UserError(
                f"There is already a run called '{name}'.",
                where=str(path),
                expected="a new name: a run directory is never reused",
                hint=f"attnres runs show {name}",
            )


def _renamed(hidden: Path, path: Path) -> bool:
    """Whether the folder has got its name; another of the same name keeps it."""
    if path.is_symlink() or path.exists():
        return False
    try:
        hidden.rename(path)
    except OSError:
        if path.exists():  # made by another process meanwhile: a folder that holds something is never replaced
            return False
        raise
    return True
