"""Coarse to fine, one axis after the other, each around the best so far, on a log grid whose step is a quarter octave
(2^(1/4)):

    rate    factor 2 on either side of the preset's learning rate
    narrow  ±√2 around the best
    decay   factor 2 on either side of the preset's weight decay, at the best rate      (where asked for)
    query   the same for the queries' learning-rate factor                              (where asked for)
    check   the best and ±√2 of its rate at the full horizon        (where the trials before were shorter)

An arm without depth queries spends the trials of `query` on learning rates between the ones it tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from attnres_cli.analysis.tuning import OCTAVE, Outcome, Search, Trial, beside, edges, lowest

Stage = Literal["rate", "narrow", "decay", "query", "check"]

POINTS_MAY_GROW = True
TAKES_TRIALS = False
FEWEST_TRIALS = 5


def check_installed() -> None:
    """A grid needs nothing."""


def rule(search: Search, around: float) -> str:
    return (
        f"A factor-2 grid of {2 * search.octaves + 1} learning rates around {around:g}, then around the best of each "
        "arm"
    )


def all_trials(search: Search, *, has_query: bool) -> tuple[Trial, ...]:
    """As if the preset's own values were the best."""
    found: list[Trial] = []
    for stage in _stages(search):
        found += _trials(stage, search, Trial(), has_query=has_query)
    return tuple(found)


def next_trials(search: Search, losses: Mapping[Trial, float], *, has_query: bool) -> tuple[Trial, ...]:
    return outcome(search, losses, has_query=has_query).trials


def outcome(search: Search, losses: Mapping[Trial, float], *, has_query: bool) -> Outcome:
    """What follows from the losses that are known. losses: nats; infinite for a trial that diverged."""
    wanted: list[Trial] = []
    best: Trial | None = Trial()
    for stage in _stages(search):
        assert best is not None, "a stage before found nothing"
        new = _trials(stage, search, best, has_query=has_query)
        wanted += new
        if not all(trial in losses for trial in new):
            known = lowest(wanted[: -len(new)], losses) if stage != "rate" else None
            return Outcome(tuple(wanted), False, known, ())
        best = lowest(new if stage == "check" else wanted, losses)
        if best is None:
            return Outcome(tuple(wanted), True, None, ())
    assert best is not None, "every stage found something"
    return Outcome(tuple(wanted), True, best, edges(wanted, best))


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
        return list(beside(best, full=False))
    if stage == "decay":
        return [replace(best, decay=step) for step in around]
    if stage == "query" and has_query:
        return [replace(best, query=step) for step in around]
    if stage == "query":  # odd quarter octaves: no other stage tries those
        between = [step // 2 + (1 if step < 0 else -1) for step in around]
        return [replace(best, rate=best.rate + step) for step in between]
    low, high = beside(best, full=True)
    return [low, replace(best, full=True), high]
