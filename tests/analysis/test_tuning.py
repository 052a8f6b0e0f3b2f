"""The trials of a tuned arm, and when an optimum is one; losses are written down or come from a known curve."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from attnres_cli.analysis.tuning import Edge, Outcome, Search, Trial, all_trials, factor, outcome

Curve = Callable[[Trial], float]


def bowl(rate: float, decay: float = 0, query: float = 0) -> Curve:
    """A loss whose only minimum lies at these quarter octaves."""
    return lambda trial: 2 + (trial.rate - rate) ** 2 + (trial.decay - decay) ** 2 + 0.1 * (trial.query - query) ** 2


def searched(search: Search, curve: Curve, *, has_query: bool = True) -> tuple[Outcome, list[set[Trial]]]:
    """The outcome, and the new trials of every round, as a program would train them."""
    losses: dict[Trial, float] = {}
    rounds: list[set[Trial]] = []
    while True:
        found = outcome(search, losses, has_query=has_query)
        new = set(found.trials) - losses.keys()
        if not new:
            return found, rounds
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
    assert len(set(all_trials(search, has_query=has_query))) == search.trials_per_arm
    for curve in (bowl(0), bowl(3, 8, -4), bowl(-100), bowl(100, 100, 100)):
        found, _ = searched(search, curve, has_query=has_query)
        assert found.is_complete
        assert len(set(found.trials)) == search.trials_per_arm


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


def test_an_arm_that_diverges_everywhere_has_no_best_and_no_further_trials() -> None:
    found, rounds = searched(Search(check=True), lambda trial: math.inf)
    assert len(rounds) == 1
    assert (found.best, found.is_complete, found.is_tuned) == (None, True, False)


def test_unfinished_stages_ask_for_nothing_further() -> None:
    losses = {Trial(step): float(step) for step in (-8, -4, 0, 4)}
    found = outcome(Search(), losses, has_query=False)
    assert not found.is_complete
    assert {trial.rate for trial in found.trials} == {-8, -4, 0, 4, 8}
