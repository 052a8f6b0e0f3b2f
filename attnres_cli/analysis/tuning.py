"""Tuning one arm: which trials it gets, and whether what they found is an optimum.

One axis after the other, each around the best so far, on a log grid whose step is a quarter octave (2^(1/4)):

    rate    factor 2 on either side of the preset's learning rate
    narrow  ±√2 around the best
    decay   factor 2 on either side of the preset's weight decay, at the best rate      (where asked for)
    query   the same for the queries' learning-rate factor                              (where asked for)
    check   the best and ±√2 of its rate at the full horizon        (where the trials before were shorter)

Every arm gets the same number of trials, since the best of many is better than the best of few: an arm without depth
queries spends those of `query` on learning rates between the ones it tried.

An optimum is one only where both sides of it were tried and are worse. One at the edge of what was tried is not tuned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

OCTAVE = 4
HALF_OCTAVE = 2
AXES = ("rate", "decay", "query")

Stage = Literal["rate", "narrow", "decay", "query", "check"]
Side = Literal["lowest", "highest"]


@dataclass(frozen=True, order=True)
class Trial:
    """Where a trial lies: quarter octaves from the preset's own values. full: at the full horizon, not the search's."""

    rate: int = 0
    decay: int = 0
    query: int = 0
    full: bool = False


@dataclass(frozen=True)
class Search:
    """What is asked for. octaves: the grid reaches this far on either side of the preset's value. check: the search is
    shorter than the full horizon, so that its winner has to be checked there."""

    octaves: int = 2
    decay: bool = False
    query: bool = False
    check: bool = False

    @property
    def trials_per_arm(self) -> int:
        axis = 2 * self.octaves
        return axis + 1 + 2 + axis * (self.decay + self.query) + 3 * self.check


@dataclass(frozen=True)
class Edge:
    """A best that lies at the edge of what was tried along an axis: the other side of it is unknown."""

    axis: str
    side: Side
    full: bool = False


@dataclass(frozen=True)
class Outcome:
    """What the trials of one arm found so far.

    trials: all that are wanted by what is known, in the order of their stages; is_complete: all of them are known and
    no further stage follows. best: the lowest (at the full horizon where that was checked), None where nothing has a
    finite loss. edges: why it is not tuned.
    """

    trials: tuple[Trial, ...]
    is_complete: bool
    best: Trial | None
    edges: tuple[Edge, ...]

    @property
    def is_tuned(self) -> bool:
        return self.is_complete and self.best is not None and not self.edges


def factor(steps: int) -> float:
    return math.exp2(steps / OCTAVE)


def all_trials(search: Search, *, has_query: bool) -> tuple[Trial, ...]:
    """As many trials as an arm will get, as if the preset's own values were the best: for the price."""
    found: list[Trial] = []
    for stage in _stages(search):
        found += _trials(stage, search, Trial(), has_query=has_query)
    return tuple(found)


def outcome(search: Search, losses: Mapping[Trial, float], *, has_query: bool) -> Outcome:
    """What follows from the losses that are known. losses: nats; infinite for a trial that diverged."""
    wanted: list[Trial] = []
    best: Trial | None = Trial()
    for stage in _stages(search):
        assert best is not None, "a stage before found nothing"
        new = _trials(stage, search, best, has_query=has_query)
        wanted += new
        if not all(trial in losses for trial in new):
            known = _lowest(wanted[: -len(new)], losses) if stage != "rate" else None
            return Outcome(tuple(wanted), False, known, ())
        best = _lowest(new if stage == "check" else wanted, losses)
        if best is None:
            return Outcome(tuple(wanted), True, None, ())
    assert best is not None, "every stage found something"
    return Outcome(tuple(wanted), True, best, tuple(_edges(wanted, best)))


def _stages(search: Search) -> tuple[Stage, ...]:
    asked: list[tuple[Stage, bool]] = [
        ("rate", True), ("narrow", True), ("decay", search.decay), ("query", search.query), ("check", search.check),
    ]  # fmt: skip
    return tuple(stage for stage, is_asked in asked if is_asked)


def _trials(stage: Stage, search: Search, best: Trial, *, has_query: bool) -> list[Trial]:
    grid = [OCTAVE * step for step in range(-search.octaves, search.octaves + 1)]
    around = [step for step in grid if step]
    if stage == "rate":
        return [Trial(rate=step) for step in grid]
    if stage == "narrow":
        return [replace(best, rate=best.rate + step) for step in (-HALF_OCTAVE, HALF_OCTAVE)]
    if stage == "decay":
        return [replace(best, decay=step) for step in around]
    if stage == "query" and has_query:
        return [replace(best, query=step) for step in around]
    if stage == "query":  # odd quarter octaves: no other stage tries those
        between = [step // 2 + (1 if step < 0 else -1) for step in around]
        return [replace(best, rate=best.rate + step) for step in between]
    return [replace(best, rate=best.rate + step, full=True) for step in (-HALF_OCTAVE, 0, HALF_OCTAVE)]


def _lowest(trials: Iterable[Trial], losses: Mapping[Trial, float]) -> Trial | None:
    """None where none has a finite loss."""
    finite = [trial for trial in trials if math.isfinite(losses[trial])]
    return min(finite, key=lambda trial: losses[trial]) if finite else None


def _edges(trials: Sequence[Trial], best: Trial) -> Iterable[Edge]:
    """Axes along which the best is the outermost of what was tried."""
    searched = [trial for trial in trials if not trial.full]
    checked = [trial for trial in trials if trial.full]
    if checked and (side := _side(best.rate, [trial.rate for trial in checked])):
        yield Edge("rate", side, full=True)
    for axis in AXES:
        values = [getattr(trial, axis) for trial in searched]
        if len(set(values)) > 1 and (side := _side(getattr(best, axis), values)):
            yield Edge(axis, side)


def _side(value: int, tried: Sequence[int]) -> Side | None:
    if value <= min(tried):
        return "lowest"
    return "highest" if value >= max(tried) else None
