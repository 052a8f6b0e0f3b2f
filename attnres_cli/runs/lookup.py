"""From what a user types to a run directory, and the list of all runs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from attnres_cli.errors import UserError, nearest_name
from attnres_cli.runs.directory import RunDirectory

DEFAULT_ROOT = Path("runs")
MOST_NAMES_IN_AN_ERROR = 8
# Stands before the end of a name in a list that is too narrow for all of it; may be typed or left out.
SHORTENED = "…"


def run_names(root: Path) -> list[str]:
    """Names of everything below `root` that looks like a run, from folder names only (for shell completion).

    A run in a group is called `group/name`.
    """
    return sorted(name for name, _ in _folders(root))


def list_runs(root: Path) -> list[RunDirectory]:
    """Every run below `root`, by name; an absent root holds none. Folders that are no runs are passed over."""
    return [run for _, path in sorted(_folders(root)) if (run := RunDirectory(path)).is_run]


def find_run(ref: str | Path, root: Path) -> RunDirectory:
    """The run that `ref` means: a name below `root`, a path, the unique beginning of a name, or its unique end after a
    hyphen ("ab12", as short lists show it), tried in this order.

    Raises UserError when there is none (with the nearest name) or when several names begin or end so.
    """
    text = str(ref)
    for path in (root / text, Path(text)):
        if text.strip() and path.is_dir() and (run := RunDirectory(path)).is_run:
            return run
    runs = {name: RunDirectory(path) for name, path in _folders(root)}
    for part, fits in (("beginning", _begins), ("end", _ends)):
        found = [name for name in sorted(runs) if text.strip() and fits(name, text) and runs[name].is_run]
        if len(found) == 1:
            return runs[found[0]]
        if found:
            raise UserError(
                f"'{text}' is the {part} of {len(found)} runs.", where=str(root), expected=f"one of {_shortened(found)}"
            )
    if text.strip() and ((root / text).is_dir() or Path(text).is_dir()):
        folder = root / text if (root / text).is_dir() else Path(text)
        raise UserError(
            f"'{text}' is no run directory: it has neither a manifest.json nor a state.json.", where=str(folder)
        )
    names = [name for name in runs if runs[name].is_run]
    raise UserError(
        f"There is no run '{text}'.",
        where=str(root),
        expected=_shortened(sorted(names)) if names else f"a run, but {none_in(root)}",
        nearest=nearest_name(text, names),
        hint=below_root("attnres runs ls" if names else "attnres train cpu-tiny", root),
    )


def is_absent(root: Path) -> bool:
    """Whether there is no such folder, and somebody named it: the one that commands take by themselves is made by the
    first run, and until then it is empty."""
    return root != DEFAULT_ROOT and not os.path.exists(root)


def none_in(root: Path) -> str:
    """Half a sentence about a root in which nothing was found."""
    return f"there is no folder {root}" if is_absent(root) else f"there are none in {root}"


def below_root(command: str, root: Path) -> str:
    """A command to type for runs below `root`; it names the root where it would look in another one by itself."""
    own = Path(os.environ.get("ATTNRES_RUNS") or DEFAULT_ROOT)
    return command if root == own else f"{command} --runs-dir {shlex.quote(str(root))}"


def name_below(run: RunDirectory, root: Path) -> str:
    """What the user can type for `run`: its name below `root`, or its path when it lives elsewhere."""
    try:
        return run.path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return str(run.path)


def _folders(root: Path) -> Iterator[tuple[str, Path]]:
    """(name, folder) of every candidate: `root/name`, and `root/group/name` where the group itself holds no
    state.json."""
    for folder in _visible_folders(root):
        if (folder / "state.json").exists() or (folder / "manifest.json").exists():
            yield folder.name, folder
        else:
            for inner in _visible_folders(folder):
                if (inner / "state.json").exists() or (inner / "manifest.json").exists():
                    yield f"{folder.name}/{inner.name}", inner


def _visible_folders(folder: Path) -> Iterator[Path]:
    try:
        entries = list(folder.iterdir())
    except OSError:
        return
    yield from (entry for entry in entries if not entry.name.startswith(".") and entry.is_dir())


def _begins(name: str, text: str) -> bool:
    return name.startswith(text) or name.rpartition("/")[2].startswith(text)


def _ends(name: str, text: str) -> bool:
    return name.endswith(f"-{text.removeprefix(SHORTENED)}")


def _shortened(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES_IN_AN_ERROR])
    return shown + (f" and {len(names) - MOST_NAMES_IN_AN_ERROR} more" if len(names) > MOST_NAMES_IN_AN_ERROR else "")
