"""The trials of a tuned arm, and when an optimum is one; losses are written down or come from a known curve."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from attnres_cli.analysis.tuning import (
    ENGINES,
    Edge,
    Outcome,
    Search,
    Trial,
    all_trials,
    engine,
    factor,
    next_trials,
    outcome,
)
from attnres_cli.discovery import names
from attnres_cli.errors import UserError

Curve = Callable[[Trial], float]
EVERY_ENGINE = pytest.mark.parametrize("name", names(ENGINES))


def bowl(rate: float, decay: float = 0, query: float = 0) -> Curve:
    """A loss whose only minimum lies at these quarter octaves."""
    return lambda trial: 2 + (trial.rate - rate) ** 2 + (trial.decay - decay) ** 2 + 0.1 * (trial.query - query) ** 2


def searched(search: Search, curve: Curve, *, has_query: bool = True) -> tuple[Outcome, list[set[Trial]]]:
    """The outcome, and the new trials of every round, as a program would train them."""
    losses: dict[Trial, float] = {}
    rounds: list[set[Trial]] = []
    while True:
        new = set(next_trials(search, losses, has_query=has_query)) - losses.keys()
        if not new:
            return outcome(search, losses, has_query=has_query), rounds
        rounds.append(new)
        losses |= {trial: curve(trial) for trial in new}


def test_a_factor_of_two_then_half_octaves_around_the_best() -> None:
    found, rounds = searched(Search(), bowl(5))
    assert [sorted(trial.rate for trial in each) for each in rounds] == [[-8, -4, 0, 4, 8], [2, 6]]
    assert found.best == Trial(4)  # as far from 5 as 6 is, and found first
    assert found.is_tuned
    assert factor(4) == 2
    assert factor(-2) == pytest.approx(1 / math.sqrt(2))


@pytest.mark.parametrize("has_query", [True, False])
@pytest.mark.parametrize("octaves", [1, 2, 4])
@pytest.mark.parametrize("decay", [True, False])
@pytest.mark.parametrize("query", [True, False])
@pytest.mark.parametrize("check", [True, False])
def test_every_arm_gets_the_same_number_of_trials_wherever_its_optimum_is(
    octaves: int, decay: bool, query: bool, check: bool, has_query: bool
) -> None:
    search = Search(octaves, decay, query, check)
    for curve in (bowl(0), bowl(3, 8, -4), bowl(-100), bowl(100, 100, 100)):
        have_as_many(search, curve, has_query=has_query)


@EVERY_ENGINE
@pytest.mark.parametrize(
    "search",
    [Search(), Search(check=True), Search(decay=True, query=True, check=True), Search(1, query=True)],
    ids=["rate", "checked", "all axes", "narrow"],
)
def test_every_engine_keeps_to_the_price_and_tries_the_common_values(name: str, search: Search) -> None:
    search = replace(search, engine=name)
    for has_query in (True, False):
        for curve in (bowl(2.5, 1), bowl(-100), lambda trial: math.inf if trial.rate > 1 else -trial.rate):
            have_as_many(search, curve, has_query=has_query)


def have_as_many(search: Search, curve: Curve, *, has_query: bool) -> None:
    """The price, the trials that are trained, and those of the outcome are as many as every arm gets."""
    assert len(set(all_trials(search, has_query=has_query))) == search.trials_per_arm
    found, rounds = searched(search, curve, has_query=has_query)
    assert found.is_complete
    assert sum(len(each) for each in rounds) == len(set(found.trials)) == search.trials_per_arm
    assert Trial() in rounds[0]
    assert sum(trial.full for trial in found.trials) == 3 * search.check


@EVERY_ENGINE
def test_what_an_engine_wants_next_is_decided_by_the_results_alone(name: str) -> None:
    search = Search(decay=True, query=True, check=True, engine=name, sampler_seed=1003)
    _, rounds = searched(search, bowl(3.3, 2, -1))
    known: dict[Trial, float] = {}
    for new in rounds:
        # Asked again, in another order, and with some results of the round still missing: nothing else comes out.
        assert set(next_trials(search, known, has_query=True)) == {*known, *new}
        shuffled = dict(sorted(known.items(), key=lambda item: -item[1]))
        assert set(next_trials(search, shuffled, has_query=True)) == {*known, *new}
        some = dict(list({trial: bowl(3.3, 2, -1)(trial) for trial in sorted(new)}.items())[1:])
        assert set(next_trials(search, {**known, **some}, has_query=True)) == {*known, *new}
        known |= {trial: bowl(3.3, 2, -1)(trial) for trial in new}


@EVERY_ENGINE
def test_an_arm_that_diverges_everywhere_has_no_best_and_nothing_to_check(name: str) -> None:
    search = Search(check=True, engine=name)
    found, rounds = searched(search, lambda trial: math.inf)
    assert not any(trial.full for each in rounds for trial in each)
    assert (found.best, found.is_complete, found.is_tuned) == (None, True, False)


def test_an_unknown_engine_is_named_with_those_there_are() -> None:
    with pytest.raises(UserError, match="There is no engine of attnres tune 'gird'") as caught:
        outcome(Search(engine="gird"), {}, has_query=False)
    assert (caught.value.faults[0].expected, caught.value.faults[0].nearest) == ("grid, optuna", "grid")


# ---------------------------------------------------------------- grid


def test_the_best_at_the_edge_of_what_was_tried_is_not_tuned() -> None:
    found, _ = searched(Search(octaves=1), bowl(20))
    assert found.best == Trial(6)
    assert found.edges == (Edge("rate", "highest"),)
    assert not found.is_tuned
    low, _ = searched(Search(octaves=1), bowl(-20))
    assert low.edges == (Edge("rate", "lowest"),)
    # The outermost of the grid is bracketed by the half octave beyond it.
    assert searched(Search(octaves=1), bowl(4))[0].is_tuned
    # Too high a rate diverges: that is a side that was tried.
    steep, _ = searched(Search(octaves=1), lambda trial: math.inf if trial.rate > 4 else 9.0 - trial.rate)
    assert (steep.best, steep.is_tuned) == (Trial(4), True)


def test_further_axes_are_searched_at_the_best_rate_and_have_edges_of_their_own() -> None:
    found, rounds = searched(Search(decay=True, query=True), bowl(4, -4, 40))
    assert rounds[2] == {Trial(4, step) for step in (-8, -4, 4, 8)}
    assert rounds[3] == {Trial(4, -4, step) for step in (-8, -4, 4, 8)}
    assert found.best == Trial(4, -4, 8)
    assert found.edges == (Edge("query", "highest"),)


def test_an_arm_without_queries_tries_rates_between_instead() -> None:
    found, rounds = searched(Search(query=True), bowl(5), has_query=False)
    assert rounds[2] == {Trial(4 + step) for step in (-3, -1, 1, 3)}
    assert found.best == Trial(5)
    assert found.is_tuned


def test_a_short_search_is_checked_at_the_full_horizon() -> None:
    found, rounds = searched(Search(check=True), lambda trial: (trial.rate - (4 if trial.full else 5)) ** 2)
    assert rounds[-1] == {Trial(4 + step, full=True) for step in (-2, 0, 2)}
    assert found.best == Trial(4, full=True)
    assert found.is_tuned
    moved, _ = searched(Search(check=True), lambda trial: (trial.rate - (0 if trial.full else 5)) ** 2)
    assert moved.best == Trial(2, full=True)
    assert moved.edges == (Edge("rate", "lowest", full=True),)


def test_no_stage_follows_one_that_diverged_everywhere() -> None:
    _, rounds = searched(Search(check=True), lambda trial: math.inf)
    assert len(rounds) == 1


def test_unfinished_stages_ask_for_nothing_further() -> None:
    losses = {Trial(step): float(step) for step in (-8, -4, 0, 4)}
    found = outcome(Search(), losses, has_query=False)
    assert not found.is_complete
    assert {trial.rate for trial in found.trials} == {-8, -4, 0, 4, 8}


# ---------------------------------------------------------------- optuna


def test_optuna_draws_first_then_proposes_one_at_a_time_and_ends_with_the_pair_beside_its_best() -> None:
    search = Search(engine="optuna", trials=12, sampler_seed=1000)
    found, rounds = searched(search, bowl(3))
    assert [len(each) for each in rounds] == [3, 1, 1, 1, 1, 1, 1, 1, 2]
    before = [trial for each in rounds[:-1] for trial in each]
    assert all(-8 <= trial.rate <= 8 for trial in before)
    best = min(before, key=bowl(3))
    assert sorted(trial.rate for trial in rounds[-1]) == pytest.approx([best.rate - 2, best.rate + 2])
    assert all(trial.refines for trial in rounds[-1])
    assert found.best is not None
    assert abs(found.best.rate - 3) < 1
    assert found.is_tuned
    # Another seed draws others; the same one the same.
    assert searched(search, bowl(3))[1] == rounds
    assert searched(replace(search, sampler_seed=1001), bowl(3))[1][0] != rounds[0]


def test_optuna_checks_a_short_search_at_the_full_horizon() -> None:
    search = Search(check=True, engine="optuna", trials=12)
    found, rounds = searched(search, lambda trial: (trial.rate - (2.5 if trial.full else 3)) ** 2)
    low, middle, high = sorted(rounds[-1])
    assert all(trial.full for trial in (low, middle, high))
    assert (middle.rate - low.rate, high.rate - middle.rate) == pytest.approx((2, 2))
    assert (found.best, found.is_tuned) == (middle, True)
    moved, rounds = searched(search, lambda trial: (trial.rate - (-3 if trial.full else 3)) ** 2)
    assert moved.best == min(rounds[-1])
    assert moved.edges == (Edge("rate", "lowest", full=True),)


def test_among_continuous_values_a_bracket_is_at_least_a_factor_of_the_square_root_of_two_wide() -> None:
    search = Search(decay=True, engine="optuna", trials=8)
    tried = [Trial(), Trial(-5, -6), Trial(3, 2), Trial(4, 7.5), Trial(-8, -7), Trial(7, 0)]
    last = [Trial(1, 2, refines=True), Trial(5, 2, refines=True)]

    def edges_of(best: Trial) -> tuple[Edge, ...]:
        losses = dict.fromkeys((*tried, *last), 2.0) | {tried[2]: 1.5, best: 1.0}
        return outcome(search, losses, has_query=False).edges

    assert edges_of(tried[2]) == ()
    assert edges_of(last[1]) == ()  # 7 lies a factor √2 above 5
    near = dict.fromkeys(tried, 2.0) | {tried[3]: 1.0, Trial(2, 7.5, refines=True): 2.0}
    near[Trial(6, 7.5, refines=True)] = 2.0
    assert outcome(search, near, has_query=False).edges == (Edge("decay", "highest"),)  # nothing lies beyond 7.5
    close = {Trial(rate, refines=abs(rate) == 2): 2.0 + (rate != 0) for rate in (0, -2, 2, -1, 1, 0.5, -0.5, 1.5)}
    assert outcome(Search(engine="optuna", trials=8), close, has_query=False).is_tuned
    off = {Trial(rate): 2.0 + abs(rate - 7) for rate in (0, 4, 7, 7.5, -3, -6)}
    off |= {Trial(5, refines=True): 4.0, Trial(9, refines=True): 1.0}
    [edge] = outcome(Search(engine="optuna", trials=8), off, has_query=False).edges
    assert edge == Edge("rate", "highest")


def test_places_that_are_taken_move_so_that_no_preset_is_trained_twice() -> None:
    search = Search(engine="optuna", trials=40, octaves=1)
    found, _ = searched(search, bowl(0))  # the sampler crowds around its best
    rates = {float(f"{0.0123456 * factor(trial.rate):.4g}") for trial in found.trials}
    assert len(rates) == 40


def test_without_the_library_one_sentence_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UserError, match="Optuna is not installed") as caught:
        engine(Search(engine="optuna")).check_installed()
    assert caught.value.faults[0].hint == "pip install 'attnres-cli[tune]'"
