"""From what a user types to a run directory, and the list of all runs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from attnres_cli.errors import UserError, nearest_name, plural
from attnres_cli.runs.directory import RunDirectory

DEFAULT_ROOT = Path("runs")
MOST_NAMES_IN_AN_ERROR = 8
SWEEP_FILE = "sweep.json"  # what makes a group of runs a sweep
TRIALS_FOLDER = "trials"  # of a sweep: runs out of the way of comparisons
# Stands before the end of a name in a list that is too narrow for all of it; may be typed or left out.
SHORTENED = "…"


def run_names(root: Path) -> list[str]:
    """Names of everything below `root` that looks like a run, from folder names only (for shell completion).

    A run in a group is called `group/name`.
    """
    return sorted(name for name, _ in _folders(root))


def list_runs(root: Path) -> list[RunDirectory]:
    """Every run below `root`, by name, the damaged ones too; an absent root holds none. Folders that are no runs are
    passed over."""
    return [run for _, path in sorted(_folders(root)) if _is_shown(run := RunDirectory(path))]


def find_run(ref: str | Path, root: Path, *, of_a_sweep: str = "show") -> RunDirectory:
    """The run that `ref` means: a name below `root`, a path, the unique beginning of a name, or its unique end after a
    hyphen ("ab12", as short lists show it), tried in this order. The name of a group means the one run in it.

    of_a_sweep: the command of `attnres sweep` that does with a whole sweep what is to be done with the run.
    Raises UserError when there is none (with the nearest name) or when several names begin or end so.
    """
    text = str(ref)
    for path in (root / text, Path(text)):
        if text.strip() and path.is_dir() and _is_shown(run := RunDirectory(path)):
            return run
    runs = {name: RunDirectory(path) for name, path in _folders(root)}
    group = find_group(text, root)
    if group is not None:
        if len(inside := [run for run in runs_of_group(group) if run.path.parent == group]) == 1:
            return inside[0]
        raise _is_a_group(text, group, [name_below(run, root) for run in inside], root, of_a_sweep)
    for part, fits in (("beginning", _begins), ("end", _ends)):
        found = [name for name in sorted(runs) if text.strip() and fits(name, text) and _is_shown(runs[name])]
        if len(found) == 1:
            return runs[found[0]]
        if found:
            raise UserError(
                f"'{text}' is the {part} of {len(found)} runs.", where=str(root), expected=f"one of {_shortened(found)}"
            )
    if text.strip() and ((root / text).is_dir() or Path(text).is_dir()):
        folder = root / text if (root / text).is_dir() else Path(text)
        raise UserError(
            f"'{text}' is no run directory: it has neither a manifest.json nor a state.json of a run.",
            where=str(folder),
        )
    names = [name for name in runs if _is_shown(runs[name])]
    raise UserError(
        f"There is no run '{text}'.",
        where=str(root),
        expected=_shortened(sorted(names)) if names else f"a run, but {none_in(root)}",
        nearest=nearest_name(text, names),
        hint=below_root("attnres runs ls" if names else "attnres train cpu-tiny", root),
    )


def _is_shown(run: RunDirectory) -> bool:
    return run.is_run or run.is_damaged_run


def find_group(ref: str | Path, root: Path) -> Path | None:
    """The folder of runs that `ref` means by its whole name below `root` or by its path: a group in `root`, or a sweep
    anywhere. None for anything else, such as a run, `root` itself, or another folder of runs and groups."""
    text = str(ref)
    for path in (root / text, Path(text)):
        if not text.strip() or not path.is_dir() or _is_shown(RunDirectory(path)) or path.resolve() == root.resolve():
            continue
        is_in_root = path.resolve().parent == root.resolve()
        if (path / SWEEP_FILE).is_file() or (is_in_root and runs_of_group(path)):
            return path
    return None


def runs_of_group(group: Path) -> list[RunDirectory]:
    """Every run in the folder of a group, by name; those that a sweep made to choose values come last."""
    folders = [*sorted(_visible_folders(group)), *sorted(_visible_folders(group / TRIALS_FOLDER))]
    return [run for folder in folders if _is_shown(run := RunDirectory(folder))]


def _is_a_group(text: str, group: Path, names: list[str], root: Path, command: str) -> UserError:
    is_sweep = (group / SWEEP_FILE).is_file()
    return UserError(
        f"'{text}' is a {'sweep' if is_sweep else 'group'} of {len(names)} {plural(len(names), 'run')}, not one run.",
        where=str(group),
        expected=f"one of {_shortened(names)}" if names else "the name of a run",
        hint=below_root(f"attnres sweep {command} {shlex.quote(text)}", root) if is_sweep else None,
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
