"""Optuna's tree-structured Parzen estimator over learning rate, weight decay and query factor together, each
log-uniform over the range that the grid's first stage spans.

    start   the preset's own values, then draws that no result decides: STARTING_TRIALS for every axis
    search  what the sampler proposes from the finished trials, one at a time
    refine  ±√2 of the best one's rate; or, where the search was shorter, the best and ±√2 at the full horizon

The study lives in memory and is made anew for every proposal: the finished trials are put into it in a fixed order,
then it is asked once, with a sampler seeded by how many there are. So a proposal is a function of the finished trials
alone, and nothing but sweep.json has to be kept.

An optimum is one where a value at least √2 lower and one at least √2 higher were tried and are worse: among continuous
values a neighbour may lie so close that it brackets nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from attnres_cli.analysis.tuning import HALF_OCTAVE, OCTAVE, Outcome, Search, Trial, beside, edges, factor, lowest
from attnres_cli.errors import UserError

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution

POINTS_MAY_GROW = False
TAKES_TRIALS = True
FEWEST_TRIALS = 6
STARTING_TRIALS = 3
# Places are multiples of this many quarter octaves: 0.17 % apart, which four significant digits tell apart.
STEP = 0.01


def check_installed() -> None:
    """Raises UserError where Optuna is missing."""
    if find_spec("optuna") is None:
        raise UserError(
            "Optuna is not installed.",
            where="--engine optuna",
            expected="the library optuna, 4 or later",
            hint="pip install 'attnres-cli[tune]'",
        )


def rule(search: Search, around: float) -> str:
    reach = factor(_reach(search))
    return (
        f"Optuna's TPE over learning rates from {around / reach:g} to {around * reach:g}, then "
        f"{'the best and ' if search.check else ''}±√2 of it for each arm"
    )


def all_trials(search: Search, *, has_query: bool) -> tuple[Trial, ...]:
    """Spread over the range: where they will lie decides nothing about the price."""
    count, reach = _searched(search), _reach(search)
    spread = (Trial(rate=round(reach * number / count, 2)) for number in range(1, count))
    return (Trial(), *spread, *_last(search, Trial(rate=-reach), taken=()))


def next_trials(search: Search, losses: Mapping[Trial, float], *, has_query: bool) -> tuple[Trial, ...]:
    known = _of_the_search(losses)
    count = _searched(search)
    if len(known) < count:
        start = _start(search, has_query=has_query)
        waiting = [trial for trial in start if trial not in known]
        if not waiting:
            finished = {trial: losses[trial] for trial in known}
            waiting = [_free(_proposed(search, finished, has_query=has_query), known)]
        return (*known, *waiting)
    best = lowest(known, losses)
    return tuple(known) if best is None else (*known, *_last(search, best, taken=known))


def outcome(search: Search, losses: Mapping[Trial, float], *, has_query: bool) -> Outcome:
    known = _of_the_search(losses)
    best = lowest(known, losses)
    if len(known) < _searched(search):
        return Outcome(tuple(known), False, best, ())
    if best is None:
        return Outcome(tuple(known), True, None, ())
    last = _last(search, best, taken=known)
    wanted = (*known, *last)
    if not all(trial in losses for trial in last):
        return Outcome(wanted, False, best, ())
    best = lowest(last if search.check else wanted, losses)
    return Outcome(wanted, True, best, () if best is None else edges(wanted, best, reach=HALF_OCTAVE))


# ---------------------------------------------------------------------- which trials


def _searched(search: Search) -> int:
    """Trials before the last ones."""
    return search.trials_per_arm - (3 if search.check else 2)


def _of_the_search(losses: Mapping[Trial, float]) -> list[Trial]:
    """The finished trials that were drawn or proposed, in an order that does not depend on which finished first."""
    return sorted(trial for trial in losses if not trial.full and not trial.refines)


def _last(search: Search, best: Trial, *, taken: Sequence[Trial]) -> tuple[Trial, ...]:
    low, high = beside(best, full=search.check)
    if search.check:
        return low, replace(best, full=True), high
    rates = {trial.rate for trial in taken if replace(trial, rate=0) == replace(best, rate=0)}
    # Outwards from a place that is taken: the pair has to lie at least √2 from the best.
    low = replace(low, rate=_first_free(low.rate, -STEP, rates), refines=True)
    return low, replace(high, rate=_first_free(high.rate, STEP, rates), refines=True)


def _start(search: Search, *, has_query: bool) -> list[Trial]:
    """The preset's own values and random ones, the same for every arm with the same axes."""
    draws = min(STARTING_TRIALS * len(_axes(search, has_query=has_query)), _searched(search))
    found = [Trial()]
    while len(found) < draws:
        found.append(_free(_drawn(search, len(found), has_query=has_query), found))
    return found


def _free(trial: Trial, taken: Sequence[Trial]) -> Trial:
    """The trial itself, or the nearest place above its rate that nothing has."""
    rates = {each.rate for each in taken if replace(each, rate=0) == replace(trial, rate=0)}
    return replace(trial, rate=_first_free(trial.rate, STEP, rates))


def _first_free(rate: float, step: float, taken: set[float]) -> float:
    while (rate := round(rate, 2)) in taken:
        rate += step
    return rate


# ---------------------------------------------------------------------- Optuna


def _reach(search: Search) -> float:
    """Quarter octaves from the preset's value to either end of the range."""
    return OCTAVE * search.octaves


def _axes(search: Search, *, has_query: bool) -> tuple[str, ...]:
    return ("rate", *(("decay",) if search.decay else ()), *(("query",) if search.query and has_query else ()))


def _drawn(search: Search, number: int, *, has_query: bool) -> Trial:
    """What the sampler draws before there are results."""
    return _asked(_study(search, number, startup=number + 1), search, has_query=has_query)


def _proposed(search: Search, finished: Mapping[Trial, float], *, has_query: bool) -> Trial:
    """What the sampler makes of these results. A trial that diverged is one of infinite loss."""
    from optuna.trial import create_trial

    study, reach = _study(search, len(finished), startup=1), _reach(search)
    spaces = _spaces(search, has_query=has_query)
    for trial, loss in finished.items():
        params = {axis: min(max(getattr(trial, axis), -reach), reach) for axis in spaces}
        study.add_trial(create_trial(params=params, distributions=spaces, value=loss))
    return _asked(study, search, has_query=has_query)


def _study(search: Search, number: int, *, startup: int) -> Study:
    """A study in memory. number: of finished trials, so that every proposal draws from a generator of its own."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    seed = 1000 * search.sampler_seed + number
    sampler = optuna.samplers.TPESampler(seed=seed % 2**32, n_startup_trials=startup)
    return optuna.create_study(sampler=sampler, direction="minimize")


def _asked(study: Study, search: Search, *, has_query: bool) -> Trial:
    params = study.ask(_spaces(search, has_query=has_query)).params
    return Trial(**{axis: round(value, 2) + 0.0 for axis, value in params.items()})


def _spaces(search: Search, *, has_query: bool) -> dict[str, BaseDistribution]:
    """Uniform in quarter octaves, which is log-uniform in the values."""
    from optuna.distributions import FloatDistribution

    reach = _reach(search)
    return {axis: FloatDistribution(-reach, reach) for axis in _axes(search, has_query=has_query)}
