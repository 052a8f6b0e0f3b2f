"""Which runs are watched, and how each of them stands: everything from the files, whoever writes them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnres_cli.report.references import find_runs
from attnres_cli.report.watching_log import MetricsLog
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.fairness import Facts, facts_of
from attnres_cli.runs.files import json_or_nothing
from attnres_cli.runs.lookup import SWEEP_FILE, name_below
from attnres_cli.runs.metrics import number
from attnres_cli.runs.process import is_gone
from attnres_cli.runs.state import ENDED, UNREADABLE

GONE = "removed"
OVER = (*ENDED, GONE, UNREADABLE)
# Folders are searched for new runs this often; the runs that are known are looked at every time.
LOOK_AROUND_EVERY_SECONDS = 5.0
RUN_FILES = ("state.json", "manifest.json")


class WatchedRun:
    """A run and what is known of it. name: as the user can type it."""

    def __init__(self, run: RunDirectory, name: str) -> None:
        self.run, self.name = run, name
        self.log = MetricsLog(run.metrics_path)
        self.state: dict[str, Any] = {"status": UNREADABLE}
        self.facts: Facts | None = None
        self._manifest: dict[str, Any] = {}
        self._identity: tuple[int, int] | None = None  # of the manifest that the facts are from

    def look(self) -> bool:
        """Read what is new; whether anything that is shown has changed. A run that vanishes is GONE, and keeps what is
        known of it."""
        if not self.run.path.is_dir():
            changed = self.status != GONE
            self.state = {**self.state, "status": GONE}
            return changed
        shown = (self.status, self.step)
        self.state = self.run.read_state()
        changed = self.log.read()
        return self._read_facts() or changed or shown != (self.status, self.step)

    def _read_facts(self) -> bool:
        """The manifest is written once, a moment after the run has begun."""
        try:
            found = os.stat(self.run.manifest_path)
        except OSError:
            return False
        if self._identity == (found.st_ino, found.st_mtime_ns):
            return False
        self._identity = (found.st_ino, found.st_mtime_ns)
        self.facts = facts_of(self.run)
        self._manifest = json_or_nothing(self.run.manifest_path)
        return True

    @property
    def status(self) -> str:
        return str(self.state["status"])

    @property
    def is_over(self) -> bool:
        """Whether nobody writes it any more, unless it is resumed."""
        return self.status in OVER

    @property
    def scheme(self) -> str | None:
        scheme = (self.facts and self.facts["residual.scheme"]) or self._manifest.get("scheme")
        return scheme if isinstance(scheme, str) else None

    @property
    def seed(self) -> int | None:
        seed = self.facts and self.facts["train.seed"]
        return seed if isinstance(seed, int) and not isinstance(seed, bool) else None

    @property
    def step(self) -> int:
        """Finished optimiser steps, by the state or the newest row."""
        rows = (self.state, self.log.last_train, self.log.last_evaluation)
        return int(max((number(row, "step") or 0.0 for row in rows), default=0.0))

    @property
    def steps(self) -> int | None:
        """Optimiser steps of the whole run; None where it does not say."""
        steps = number(self.state, "steps") or number(self._manifest, "steps")
        return None if steps is None else int(steps)

    @property
    def tokens(self) -> int | None:
        """Training tokens of the whole run; None where it does not say."""
        tokens = number(self._manifest, "tokens")
        return None if tokens is None else int(tokens)

    @property
    def eta_seconds(self) -> float | None:
        """Training time that is left at the pace of the newest row; None for a run that does not train."""
        seconds = number(self.log.last_train, "step_seconds")
        if self.status != "running" or seconds is None or self.steps is None:
            return None
        return max(0, self.steps - self.step) * seconds


@dataclass
class Watch:
    """The runs that are watched.

    root: the runs folder. refs: what the user named (runs, groups, patterns); empty: whatever trains below root.
    """

    root: Path
    refs: Sequence[str] = ()
    runs: list[WatchedRun] = field(default_factory=list)
    _known: dict[Path, int] = field(default_factory=dict)  # run folders -> when their state was last written
    _looked_around: float = float("-inf")

    def look(self) -> bool:
        """Read what is new in every run, and look for new runs now and then; whether anything has changed.

        Raises UserError, at the first look, for a name that means nothing.
        """
        before = len(self.runs)
        now = time.monotonic()
        if now - self._looked_around >= LOOK_AROUND_EVERY_SECONDS:
            first = self._looked_around < 0
            self._looked_around = now
            if not self.refs:
                self._add_running(_folders_of_runs(self.root))
            elif first:
                for each in find_runs(self.refs, self.root):
                    self._add(each.run)
            else:
                self._add_running(folder for group in self._groups() for folder in _folders_in(group))
        changed = [run.look() for run in self.runs]
        return any(changed) or len(self.runs) != before

    @property
    def is_over(self) -> bool:
        """Whether all of them have ended and no sweep is about to begin another one. Nothing watched: still to come."""
        return bool(self.runs) and all(run.is_over for run in self.runs) and not self._sweep_goes_on()

    def _groups(self) -> list[Path]:
        """The folders that were named: their new runs are watched, too."""
        folders = [path for ref in self.refs for path in (self.root / ref, Path(ref)) if path.is_dir()]
        return [folder for folder in dict.fromkeys(folders) if not _is_run_folder(folder)]

    def _add_running(self, folders: Iterator[Path]) -> None:
        """Those of the folders whose run trains; one that does not is looked at again when its state is written."""
        for folder in folders:
            written = _written(folder)
            if self._known.get(folder) != written:
                self._known[folder] = written
                run = RunDirectory(folder)
                if run.status == "running":
                    self._add(run)

    def _add(self, run: RunDirectory) -> None:
        if all(run.path != each.run.path for each in self.runs):
            self.runs.append(WatchedRun(run, name_below(run, self.root)))

    def _sweep_goes_on(self) -> bool:
        """Whether the process of a sweep that these runs are, or could be, part of still runs."""
        folders = self._groups() if self.refs else _entries(self.root)
        for folder in (*folders, *{run.run.path.parent for run in self.runs}):
            sweep = json_or_nothing(Path(folder) / SWEEP_FILE)
            process = sweep.get("process")
            if sweep.get("status") == "running" and isinstance(process, dict) and not is_gone(process):
                return True
        return False


def _folders_of_runs(root: Path) -> Iterator[Path]:
    """Every folder of a run: `root/name` and `root/group/name`."""
    for folder in _entries(root):
        if _is_run_folder(folder):
            yield folder
        else:
            yield from _folders_in(folder)


def _folders_in(group: Path) -> Iterator[Path]:
    return (folder for folder in _entries(group) if _is_run_folder(folder))


def _entries(folder: Path) -> list[Path]:
    """Folders inside by name; one that cannot be read has none."""
    try:
        with os.scandir(folder) as entries:
            found = [each.name for each in entries if not each.name.startswith(".") and each.is_dir()]
    except OSError:
        return []
    return [folder / name for name in sorted(found)]


def _is_run_folder(folder: Path) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in RUN_FILES)


def _written(folder: Path) -> int:
    try:
        return os.stat(os.path.join(folder, "state.json")).st_mtime_ns
    except OSError:
        return 0
