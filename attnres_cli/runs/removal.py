"""Removing runs: only run directories, never a living one, and out of sight in one step."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from attnres_cli.errors import Fault, UserError
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.process import is_gone


def why_not(run: RunDirectory) -> str | None:
    """Why this must not be removed, or None. A stale run may go unless its process still exists."""
    if not run.is_run:
        return f"'{run.path}' is no run directory"
    state = run.read_state()
    if state["status"] == "running":
        return f"Run '{run.name}' is running (process {state.get('pid')} on {state.get('host')})"
    if state["status"] == "stale" and not is_gone(state) and _is_here(state):
        return f"Run '{run.name}' is silent, but its process {state.get('pid')} still exists"
    return None


def check_removable(runs: Sequence[RunDirectory]) -> None:
    """Raise one UserError with every reason against removing any of them; then none may be removed."""
    faults = [Fault(f"{reason}.", where=str(run.path)) for run in runs if (reason := why_not(run))]
    if faults:
        raise UserError(faults)


def remove_run(run: RunDirectory) -> None:
    """Remove a run directory and everything in it. Raises UserError where `why_not` has a reason.

    It is renamed first: whoever lists runs meanwhile sees all of it or nothing, and a removal that is cut short
    leaves no half run behind, only a hidden folder.
    """
    check_removable([run])
    path = run.path.resolve()
    hidden = path.parent / f".removing-{os.urandom(4).hex()}"
    try:
        path.rename(hidden)
        shutil.rmtree(hidden)
    except OSError as error:
        raise UserError(
            f"Run '{run.name}' cannot be removed: {error.strerror or error}.", where=str(error.filename or path)
        ) from error


def size_bytes(run: RunDirectory) -> int:
    """What the run's files hold; a file that vanishes meanwhile counts as nothing."""
    return sum(_file_bytes(path) for path in run.path.rglob("*"))


def _file_bytes(path: Path) -> int:
    try:
        return 0 if path.is_symlink() or not path.is_file() else path.stat().st_size
    except OSError:
        return 0


def _is_here(state: dict[str, object]) -> bool:
    import platform

    return state.get("host") == platform.node()
