"""Removing runs and groups of them: only what the program made, never a living one, and out of sight in one step."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from attnres_cli.errors import Fault, UserError
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.files import json_or_nothing
from attnres_cli.runs.lookup import SWEEP_FILE, TRIALS_FOLDER, runs_of_group
from attnres_cli.runs.process import is_gone
from attnres_cli.runs.state import judged_status

HIDDEN = ".removing-"


def why_not(run: RunDirectory) -> str | None:
    """Why this must not be removed, or None. A stale run may go unless its process still exists."""
    if run.is_damaged_run:
        return f"Neither manifest.json nor state.json of '{run.path}' can be read: nothing says that it is a run"
    if not run.is_run:
        return f"'{run.path}' is no run directory"
    state = run.read_state()
    if state["status"] == "running":
        return f"Run '{run.name}' is running (process {state.get('pid')} on {state.get('host')})"
    if state["status"] == "stale" and not is_gone(state) and _is_here(state):
        return f"Run '{run.name}' is silent, but its process {state.get('pid')} still exists"
    return None


def check_removable(runs: Sequence[RunDirectory], groups: Sequence[Path] = ()) -> None:
    """Raise one UserError with every reason against removing any of them; then none may be removed."""
    faults = [Fault(f"{reason}.", where=str(group)) for group in groups if (reason := why_not_group(group))]
    faults += [Fault(f"{reason}.", where=str(run.path)) for run in runs if (reason := why_not(run))]
    if faults:
        raise UserError(faults)


def remove_run(run: RunDirectory) -> None:
    """Remove a run directory and everything in it. Raises UserError where `why_not` has a reason.

    It is renamed first: whoever lists runs meanwhile sees all of it or nothing, and a removal that is cut short
    leaves no half run behind, only a hidden folder.
    """
    check_removable([run])
    path = run.path.resolve()
    try:
        _remove_folder(path)
    except OSError as error:
        raise UserError(
            f"Run '{run.name}' cannot be removed: {error.strerror or error}.", where=str(error.filename or path)
        ) from error


def why_not_group(group: Path) -> str | None:
    """Why the folder of a sweep must not be removed, beside what is said of its runs, or None."""
    document = json_or_nothing(group / SWEEP_FILE)
    process = document.get("process")
    if document.get("status") != "running" or not isinstance(process, dict):
        return None
    status = judged_status({"status": "running", **process})
    if status == "running":
        return f"Sweep '{group.name}' is running (process {process.get('pid')} on {process.get('host')})"
    if status == "stale" and not is_gone(process) and _is_here(process):
        return f"Sweep '{group.name}' is silent, but its process {process.get('pid')} still exists"
    return None


def remove_group(group: Path) -> list[str]:
    """Remove the folder of a group or sweep with all its runs. What else somebody put there stays; its names are
    returned. Raises UserError where a reason speaks against removing any of it; then nothing is removed."""
    runs = runs_of_group(group)
    check_removable(runs, [group])
    own = {SWEEP_FILE, *(run.path.name for run in runs if run.path.parent == group)}
    trials = group / TRIALS_FOLDER
    if {path.name for path in _entries(trials)} <= {run.path.name for run in runs if run.path.parent == trials}:
        own.add(TRIALS_FOLDER)
    others = sorted(path.name for path in _entries(group) if path.name not in own)
    if others:
        for run in runs:
            remove_run(run)
    try:
        if others:
            (group / SWEEP_FILE).unlink(missing_ok=True)
            if TRIALS_FOLDER in own and trials.is_dir():
                trials.rmdir()
        else:
            _remove_folder(group.resolve())
    except OSError as error:
        raise UserError(
            f"'{group.name}' cannot be removed: {error.strerror or error}.", where=str(error.filename or group)
        ) from error
    return others


def size_bytes(folder: Path) -> int:
    """What the files below a folder hold; a file that vanishes meanwhile counts as nothing."""
    return sum(_file_bytes(path) for path in folder.rglob("*"))


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder, except for what is left of a removal that was cut short; nothing in one that is not."""
    return [path for path in folder.iterdir() if not path.name.startswith(HIDDEN)] if folder.is_dir() else []


def _remove_folder(path: Path) -> None:
    hidden = path.parent / f"{HIDDEN}{os.urandom(4).hex()}"
    path.rename(hidden)
    shutil.rmtree(hidden)


def _file_bytes(path: Path) -> int:
    try:
        return 0 if path.is_symlink() or not path.is_file() else path.stat().st_size
    except OSError:
        return 0


def _is_here(state: dict[str, object]) -> bool:
    import platform

    return state.get("host") == platform.node()
