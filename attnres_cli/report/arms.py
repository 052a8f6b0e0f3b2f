"""One arm of a comparison: one residual configuration with all its runs, or a single run under its letter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from attnres_cli.report.compared_run import ComparedRun, Points
from attnres_cli.report.table import Cell
from attnres_cli.runs.fairness import Facts


@dataclass(frozen=True)
class Arm:
    """label: what sentences and conditions call it: a letter for a single run, else the scheme's name. title: what
    tables call it. runs: at least one; in a group one per seed, equal in everything but the seed."""

    label: str
    title: str
    runs: tuple[ComparedRun, ...]

    @classmethod
    def of_run(cls, run: ComparedRun) -> Arm:
        return cls(run.label, run.title, (run,))

    @cached_property
    def counted(self) -> tuple[ComparedRun, ...]:
        """The runs whose figures an arm's means are taken over: those that finished, or all where none did."""
        return tuple(run for run in self.runs if run.end_loss is not None) or self.runs

    @property
    def lead(self) -> ComparedRun:
        """The run that stands for what all of them share."""
        return self.counted[0]

    @property
    def facts(self) -> Facts:
        return self.lead.facts

    @property
    def scheme(self) -> str | None:
        return self.lead.scheme

    @property
    def is_broken(self) -> bool:
        return all(run.is_broken for run in self.runs)

    def cell(self, value: float | int | str | None, note: str | None = None) -> Cell:
        """A cell of this arm: what is absent is marked as failed when all its runs are broken."""
        return Cell(value, note=note, failed=value is None and self.is_broken)

    def mean(self, figure: Callable[[ComparedRun], float | None]) -> float | None:
        """The mean of a figure over the counted runs; None when one of them lacks it: a mean over the rest would hide
        the hole."""
        return mean_or_none([figure(run) for run in self.counted])

    def observing(self, observer: str) -> list[ComparedRun]:
        """The counted runs that recorded this observer."""
        return [run for run in self.counted if observer in run.observations]

    def observation(self, observer: str, *keys: str) -> dict[str, list[float | None]]:
        """Lists of numbers from an observer's latest rows, each element the mean over the runs that recorded it."""
        each = [run.observation(observer, *keys) for run in self.observing(observer)]
        return {key: _means([found[key] for found in each if found[key]]) for key in keys}

    def curve(self, kind: str) -> Points:
        """The mean "validation" or "training" loss of the counted runs, wherever all of them have one."""
        curves = [dict(points) for run in self.counted if (points := run.points(kind))]
        if not curves:
            return ()
        common = [tokens for tokens in curves[0] if all(tokens in curve for curve in curves[1:])]
        return tuple((tokens, sum(curve[tokens] for curve in curves) / len(curves)) for tokens in common)

    def missing_remark(self, *observers: str) -> str | None:
        """Over how many runs a mean is taken, where it is not over all of them."""
        count = max(len(self.observing(observer)) for observer in observers)
        if count in (0, len(self.runs)):
            return None
        return f"{self.label}: mean over {count} of {len(self.runs)} runs"


def mean_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _means(lists: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Element by element; None where a list is shorter or has a hole."""
    longest = max(map(len, lists), default=0)
    return [mean_or_none([each[index] if index < len(each) else None for each in lists]) for index in range(longest)]
