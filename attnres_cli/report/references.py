"""From what a user types to the runs of a comparison: names of runs, folders of runs, patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from attnres_cli.errors import ExitCode, UserError, nearest_name
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.group_plan import planned_residuals
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.lookup import below_root, find_run, none_in, run_names

# A folder that holds one of these is a run, or was meant to be one.
_SIGNS = ("state.json", "manifest.json", "resolved.toml", "metrics.jsonl")


@dataclass(frozen=True)
class Reference:
    """A run that was asked for. group: the folder or pattern that it came with; None for a run that was named
    itself."""

    run: RunDirectory
    group: str | None = None


def find_runs(refs: Sequence[str], root: Path) -> list[Reference]:
    """Every run that the words mean, in their order, each once. Raises UserError for a word that means none, and for a
    run that is named twice."""
    found: list[Reference] = []
    known: set[RunDirectory] = set()
    named: set[RunDirectory] = set()
    for ref in refs:
        if _is_pattern(ref, root):
            new = [Reference(run, ref) for run in _matching(ref, root)]
        elif (folder := _group_folder(ref, root)) is not None:
            new = [Reference(run, folder.resolve().name) for run in _runs_in(folder)]
        else:
            new = [Reference(find_run(ref, root))]
            if new[0].run in named:
                raise UserError(f"Run '{new[0].run.name}' is given twice.", exit_code=ExitCode.USAGE)
            named.add(new[0].run)
        for each in new:
            if each.run not in known:
                known.add(each.run)
                found.append(each)
    return found


def in_order(references: Sequence[Reference], runs: Sequence[ComparedRun]) -> list[int]:
    """Places of the runs in the order in which their arms stand: as named, and inside a group as its sweep file lists
    the arms, or else as they began."""
    groups = list(dict.fromkeys((each.group, None if each.group else index) for index, each in enumerate(references)))
    residuals = {each.run.path.parent: planned_residuals(each.run.path.parent) for each in references if each.group}

    def place(index: int) -> tuple[Any, ...]:
        reference, run = references[index], runs[index]
        if reference.group is None:
            return (groups.index((None, index)),)
        listed = residuals[reference.run.path.parent]
        residual = run.resolved.get("residual")
        position = listed.index(residual) if residual in listed else len(listed)
        return groups.index((reference.group, None)), position, str(run.manifest.get("created")), index

    return sorted(range(len(runs)), key=place)


def _is_pattern(ref: str, root: Path) -> bool:
    """A folder may have such a name itself."""
    return any(character in ref for character in "*?[") and not ((root / ref).is_dir() or Path(ref).is_dir())


def _matching(pattern: str, root: Path) -> list[RunDirectory]:
    """The runs whose name below `root`, or whose path, fits; broken ones included."""
    runs = [RunDirectory(root / name) for name in run_names(root) if fnmatchcase(name, pattern)]
    if not runs and not Path(pattern).is_absolute():
        runs = [run for path in sorted(Path().glob(pattern)) if (run := RunDirectory(path)).is_run]
    if not runs:
        names = run_names(root)
        raise UserError(
            f"No run fits '{pattern}'.",
            where=str(root),
            expected="a pattern such as group/*" if names else f"a run, but {none_in(root)}",
            nearest=nearest_name(pattern.strip("*"), names),
            hint=below_root("attnres runs ls" if names else "attnres train cpu-tiny", root),
        )
    return runs


def _group_folder(ref: str, root: Path) -> Path | None:
    """The folder of runs that a word means, if it means one."""
    for path in (root / ref, Path(ref)):
        if ref.strip() and path.is_dir():
            return path if not RunDirectory(path).is_run and _runs_in(path) else None
    return None


def _runs_in(folder: Path) -> list[RunDirectory]:
    """Every run in a folder by name, broken ones included."""
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return [RunDirectory(path) for path in inside if any((path / sign).exists() for sign in _SIGNS)]
