"""A run as a comparison sees it: everything read once, with what could not be read said in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from attnres_cli.errors import UserError
from attnres_cli.report.table import Cell
from attnres_cli.runs import metrics
from attnres_cli.runs.columns import Logged, numbers
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.fairness import Facts, facts_from
from attnres_cli.runs.files import Row
from attnres_cli.runs.metrics import number
from attnres_cli.runs.state import STALE, UNREADABLE

BROKEN_STATUSES = ("diverged", "failed", UNREADABLE)
# No model has such a loss, and the squares of larger numbers overflow.
LARGEST_LOSS = 1e100
Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison.

    label: its letter, or its name where runs are grouped. observations: the latest row of each observer. problems:
    what is missing or broken, one sentence each.
    """

    label: str
    name: str
    path: Path
    manifest: Mapping[str, Any]
    resolved: Mapping[str, Any]
    facts: Facts
    state: Mapping[str, Any]
    evaluations: Sequence[Row]
    train_rows: Sequence[Row]
    observations: Mapping[str, Row]
    problems: tuple[str, ...] = field(default=())

    @property
    def scheme(self) -> str | None:
        scheme = self.facts["residual.scheme"] or self.manifest.get("scheme")
        return scheme if isinstance(scheme, str) else None

    @property
    def seed(self) -> int | None:
        seed = self.facts["train.seed"]
        return seed if isinstance(seed, int) and not isinstance(seed, bool) else None

    @property
    def title(self) -> str:
        """How tables call the run: its letter and its residual scheme."""
        return f"{self.label} {self.scheme or '(unknown scheme)'}"

    @property
    def status(self) -> str:
        return str(self.state["status"])

    @property
    def is_finished(self) -> bool:
        return self.status == "finished"

    @property
    def is_readable(self) -> bool:
        """Whether it says what it is."""
        return bool(self.manifest) and bool(self.resolved)

    @property
    def is_broken(self) -> bool:
        """Whether what is absent is absent because something went wrong."""
        return self.status in BROKEN_STATUSES or not self.is_readable

    @property
    def step(self) -> int | None:
        """Finished optimiser steps, by the state or by the last row that was logged, whichever is later."""
        steps = [row["step"] for row in (*self.evaluations[-1:], *self.train_rows[-1:])]
        if isinstance(self.state.get("step"), int):
            steps.append(self.state["step"])
        return max(steps, default=None)

    @property
    def steps(self) -> int | None:
        """Optimiser steps of the whole run."""
        steps = self.manifest.get("steps", self.state.get("steps"))
        return steps if isinstance(steps, int) else None

    @property
    def horizon_tokens(self) -> int | None:
        """Training tokens of the whole run: all its steps."""
        tokens = self.manifest.get("tokens")
        return tokens if isinstance(tokens, int) else None

    @property
    def training_flops_per_token(self) -> float | None:
        """Forward and backward, mixing over depth counted."""
        flops = self.manifest.get("flops")
        return number(flops, "training_per_token") if isinstance(flops, Mapping) else None

    @property
    def last_evaluation(self) -> Row | None:
        """The latest evaluation whose loss is a finite number."""
        return next((row for row in reversed(self.evaluations) if number(row, "loss") is not None), None)

    @property
    def end_evaluation(self) -> Row | None:
        """The evaluation at the end of a finished schedule."""
        if not self.is_finished or self.horizon_tokens is None:
            return None
        row = metrics.at_tokens(self.evaluations, self.horizon_tokens)
        return row if usable_loss(row) is not None else None

    @property
    def end_loss(self) -> float | None:
        """Nats per token at the end of a finished schedule."""
        return usable_loss(self.end_evaluation)

    def evaluation_within(self, tokens: float) -> Row | None:
        """The last evaluation after at most `tokens` training tokens, and after some; nothing is interpolated."""
        within = [row for row in self.evaluations if 0 < (number(row, "tokens") or 0.0) <= tokens]
        return within[-1] if within else None

    def points(self, kind: str) -> Points:
        """(tokens, loss) of every "validation" or "training" row that has both."""
        rows = self.evaluations if kind == "validation" else self.train_rows
        pairs = zip(numbers(rows, "tokens").tolist(), numbers(rows, "loss").tolist(), strict=True)
        return tuple((tokens, loss) for tokens, loss in pairs if tokens == tokens and loss == loss)  # nan: absent

    @cached_property
    def observed(self) -> Mapping[str, Mapping[int, Row]]:
        """Every row of each observer by its step, ascending; read when it is asked for."""
        found: dict[str, dict[int, Row]] = {}
        for row in _observed(RunDirectory(self.path), []):
            found.setdefault(row["observer"], {})[row["step"]] = row
        return {observer: dict(sorted(rows.items())) for observer, rows in found.items()}

    def observation(self, observer: str, *keys: str) -> dict[str, list[float | None]]:
        """Lists of numbers from the summary of an observer's latest row; a list that is not there is empty."""
        summary = self.observations.get(observer, {}).get("summary")
        summary = summary if isinstance(summary, Mapping) else {}
        return {key: _numbers(summary.get(key)) for key in keys}

    def cell(self, value: float | int | str | None, note: str | None = None) -> Cell:
        """A cell of this run: what is absent is marked as failed when the run is broken."""
        return Cell(value, note=note, failed=value is None and self.is_broken)

    def where_it_stands(self) -> str:
        """The status in words: "finished", "interrupted at step 40 of 100"."""
        if self.status == UNREADABLE:
            return "its state cannot be read"
        words = "stale (its process is gone or silent)" if self.status == STALE else self.status
        if self.is_finished or self.step is None:
            return words
        return f"{words} at step {self.step}" + (f" of {self.steps}" if self.steps is not None else "")

    def doubts(self) -> list[str]:
        """How far an unfinished run got, and everything about a run that could not be read."""
        return [*([] if self.is_finished else [self.where_it_stands()]), *self.problems]


def usable_loss(row: Row | None) -> float | None:
    """The loss of an evaluation, if it is a number that statistics can be made of."""
    loss = number(row, "loss")
    return loss if loss is not None and abs(loss) <= LARGEST_LOSS else None


def read_runs(runs: Sequence[RunDirectory]) -> list[ComparedRun]:
    """The runs under the letters A, B, C … in this order. Never raises for a broken run."""
    return [read_run(run, letter(index)) for index, run in enumerate(runs)]


def read_run(run: RunDirectory, label: str) -> ComparedRun:
    problems: list[str] = []
    manifest = _read(run.manifest, problems)
    resolved = _read(run.resolved, problems)
    state = run.read_state()
    if state["status"] == UNREADABLE:
        problems.append("state.json is missing or broken")
    if isinstance(state.get("error"), str):
        problems.append(state["error"])
    logged = _logged(run, problems)
    observed = _observed(run, problems)
    if not any(number(row, "loss") is not None for row in logged.evaluations):
        problems.append("no evaluation was recorded")
    return ComparedRun(
        label=label,
        name=run.name,
        path=run.path,
        manifest=manifest,
        resolved=resolved,
        facts=facts_from(manifest, resolved),
        state=state,
        evaluations=logged.evaluations,
        train_rows=logged.train,
        observations=_latest(observed),
        problems=tuple(problems),
    )


def letter(index: int) -> str:
    """A, B, … Z, AA, AB, …"""
    text = ""
    while True:
        index, rest = divmod(index, 26)
        text = chr(ord("A") + rest) + text
        if index == 0:
            return text
        index -= 1


def _read(read: Any, problems: list[str]) -> Mapping[str, Any]:
    try:
        value: Mapping[str, Any] = read()
        return value
    except UserError as error:
        problems.append(str(error))
        return {}


def _logged(run: RunDirectory, problems: list[str]) -> Logged:
    try:
        logged = run.logged()
    except OSError as error:
        problems.append(_unreadable(run.metrics_path, error))
        return Logged([], [], 0)
    _note_torn(run.metrics_path, logged.torn, problems)
    return logged


def _observed(run: RunDirectory, problems: list[str]) -> list[Row]:
    try:
        found = run.read_observations()
    except OSError as error:
        problems.append(_unreadable(run.observations_path, error))
        return []
    _note_torn(run.observations_path, found.torn, problems)
    return found.rows


def _unreadable(path: Path, error: OSError) -> str:
    return f"{path.name} cannot be read: {error.strerror or error}"


def _note_torn(path: Path, torn: int, problems: list[str]) -> None:
    if torn:
        problems.append(f"{path.name}: {torn} torn line{'s' if torn > 1 else ''} left out")


def _latest(rows: Sequence[Row]) -> dict[str, Row]:
    latest: dict[str, Row] = {}
    for row in rows:
        observer = row["observer"]
        if row["step"] >= latest.get(observer, row)["step"]:
            latest[observer] = row
    return latest


def _numbers(values: object) -> list[float | None]:
    return [number({"value": value}, "value") for value in values] if isinstance(values, list) else []
