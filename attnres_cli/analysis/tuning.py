"""Tuning one arm: what a search is, and when what its trials found is an optimum.

Which trials an arm gets, and in which order, is an engine's business (analysis/tuners/, one file each). All engines
share what makes a search fair and believable:

- Every arm gets the same number of trials, since the best of many is better than the best of few.
- The preset's own values are among them, so that all arms can be compared at a common rate.
- A search that is shorter than the full horizon ends with three trials there: its best, and ±√2 of that one's rate.
- An optimum is one only where both sides of it were tried and are worse. One at the edge of what was tried is not
  tuned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Literal

from attnres_cli import discovery

OCTAVE = 4
HALF_OCTAVE = 2
AXES = ("rate", "decay", "query")
ENGINES = "analysis.tuners"
# Quarter octaves; less than this apart is the same place, whatever rounding says.
SAME_PLACE = 1e-6

Side = Literal["lowest", "highest"]


@dataclass(frozen=True, order=True)
class Trial:
    """Where a trial lies: quarter octaves from the preset's own values.

    full: at the full horizon, not the search's. refines: it lies ±√2 beside the best of a search whose engine ends
    with such a pair.
    """

    rate: float = 0
    decay: float = 0
    query: float = 0
    full: bool = False
    refines: bool = False


@dataclass(frozen=True)
class Search:
    """What is asked for.

    octaves: the range reaches this far on either side of the preset's value. check: the search is shorter than the full
    horizon, so that its winner has to be checked there. engine: a file of analysis/tuners/. trials: of every arm, where
    that was said; else as many as the grid takes. sampler_seed: of an engine that draws.
    """

    octaves: int = 2
    decay: bool = False
    query: bool = False
    check: bool = False
    engine: str = "grid"
    trials: int | None = None
    sampler_seed: int = 0

    @property
    def trials_per_arm(self) -> int:
        axis = 2 * self.octaves
        return self.trials or axis + 1 + 2 + axis * (self.decay + self.query) + 3 * self.check


@dataclass(frozen=True)
class Edge:
    """A best that lies at the edge of what was tried along an axis: the other side of it is unknown."""

    axis: str
    side: Side
    full: bool = False


@dataclass(frozen=True)
class Outcome:
    """What the trials of one arm found so far.

    trials: all that are wanted by what is known, earlier ones included. is_complete: all of them are known and none
    follows. best: the lowest (at the full horizon where that was checked), None where nothing has a finite loss. edges:
    why it is not tuned.
    """

    trials: tuple[Trial, ...]
    is_complete: bool
    best: Trial | None
    edges: tuple[Edge, ...]

    @property
    def is_tuned(self) -> bool:
        return self.is_complete and self.best is not None and not self.edges


def engine(search: Search) -> ModuleType:
    """The file of analysis/tuners/ that conducts this search. Raises UserError where there is none of that name."""
    return discovery.load(ENGINES, search.engine, what="engine of attnres tune", where="--engine")


def all_trials(search: Search, *, has_query: bool) -> tuple[Trial, ...]:
    """As many trials as an arm will get, wherever they will lie: for the price."""
    found: tuple[Trial, ...] = engine(search).all_trials(search, has_query=has_query)
    return found


def next_trials(search: Search, losses: Mapping[Trial, float], *, has_query: bool) -> tuple[Trial, ...]:
    """All trials that are wanted by the losses that are known, earlier ones included; a function of these alone.

    losses: nats; infinite for a trial that diverged.
    """
    found: tuple[Trial, ...] = engine(search).next_trials(search, losses, has_query=has_query)
    return found


def outcome(search: Search, losses: Mapping[Trial, float], *, has_query: bool) -> Outcome:
    """What follows from the losses that are known; no engine needs its library for that."""
    found: Outcome = engine(search).outcome(search, losses, has_query=has_query)
    return found


# ---------------------------------------------------------------------- what engines share


def factor(quarter_octaves: float) -> float:
    return math.exp2(quarter_octaves / OCTAVE)


def beside(best: Trial, *, full: bool) -> tuple[Trial, Trial]:
    """±√2 of the best one's rate."""
    low, high = (replace(best, rate=best.rate + step, full=full) for step in (-HALF_OCTAVE, HALF_OCTAVE))
    return low, high


def lowest(trials: Iterable[Trial], losses: Mapping[Trial, float]) -> Trial | None:
    """None where none has a finite loss."""
    finite = [trial for trial in trials if math.isfinite(losses[trial])]
    return min(finite, key=lambda trial: losses[trial]) if finite else None


def edges(trials: Sequence[Trial], best: Trial, *, reach: float = 0) -> tuple[Edge, ...]:
    """Axes along which nothing more than `reach` quarter octaves beyond the best was tried on one side."""
    searched = [trial for trial in trials if not trial.full]
    checked = [trial for trial in trials if trial.full]
    found = []
    if checked and (side := _side(best.rate, [trial.rate for trial in checked], 0)):
        found.append(Edge("rate", side, full=True))
    for axis in AXES:
        values = [getattr(trial, axis) for trial in searched]
        if len(set(values)) > 1 and (side := _side(getattr(best, axis), values, reach)):
            found.append(Edge(axis, side))
    return tuple(found)


def _side(value: float, tried: Sequence[float], reach: float) -> Side | None:
    least = max(reach - SAME_PLACE, 0)
    if value - min(tried) <= least:
        return "lowest"
    return "highest" if max(tried) - value <= least else None
