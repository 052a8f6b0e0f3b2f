"""The compute multiplier from a ladder of endpoints: interpolation, bounds, and the coverage of its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import scipy.stats

from attnres_cli.analysis.ladder import LadderMultiplier, ladder_multiplier

TOKENS = [0.5e8, 0.7e8, 1e8, 1.4e8, 2e8]
HORIZON = 1e8


def law(tokens: float) -> float:
    return 3.0 * (tokens / HORIZON) ** -0.1


def exact(target_multiple: float, seeds: int = 1) -> LadderMultiplier:
    """A ladder on the law and an arm as good as the baseline with so many times the tokens."""
    return ladder_multiplier(
        TOKENS, [[law(each)] * seeds for each in TOKENS], [law(target_multiple * HORIZON)] * seeds, at=HORIZON
    )


@pytest.mark.parametrize("multiple", [0.5, 0.61, 0.7, 1.0, 1.25, 1.4, 1.99, 2.0])
def test_a_power_law_is_interpolated_exactly(multiple: float) -> None:
    found = exact(multiple * (1 + 1e-13 * (1 if multiple < 1 else -1)))
    assert found.value == pytest.approx(multiple, rel=1e-9)
    assert found.side is None
    assert (found.first, found.last) == pytest.approx((0.5, 2.0))


def test_interpolation_is_linear_in_logarithms_between_two_rungs() -> None:
    """Between 1 (loss 3.0) and 2 (loss 2.8): √2 times the tokens at the geometric mean of the losses."""
    found = ladder_multiplier([1.0, 2.0, 4.0], [[3.0], [2.8], [2.7]], [math.sqrt(3.0 * 2.8)], at=1.0)
    assert found.value == pytest.approx(math.sqrt(2.0), rel=1e-12)
    assert ladder_multiplier([1.0, 2.0, 4.0], [[3.0], [2.8], [2.7]], [2.8], at=2.0).value == pytest.approx(1.0)


def test_outside_the_ladder_there_is_a_bound_and_no_number() -> None:
    better, worse = exact(2.1), exact(0.45)
    assert (better.value, better.side, better.words) == (None, "above", "more than 2×")
    assert (worse.value, worse.side, worse.words) == (None, "below", "less than 0.5×")


def test_rungs_out_of_order_by_noise_are_averaged() -> None:
    """3.0, 2.8, 2.9, 2.6: the two in the middle count as √(2.8 · 2.9) each."""
    rungs, middle = [[3.0], [2.8], [2.9], [2.6]], math.sqrt(2.8 * 2.9)
    first = ladder_multiplier([1.0, 2.0, 4.0, 8.0], rungs, [middle * (1 + 1e-9)], at=1.0)
    last = ladder_multiplier([1.0, 2.0, 4.0, 8.0], rungs, [middle * (1 - 1e-9)], at=1.0)
    assert (first.value, last.value) == pytest.approx((2.0, 4.0), rel=1e-6)
    half = math.sqrt(3.0 * middle)
    assert ladder_multiplier([1.0, 2.0, 4.0, 8.0], rungs, [half], at=1.0).value == pytest.approx(math.sqrt(2.0))


def study(
    generator: np.random.Generator, seeds: int, multiple: float, spread: float = 0.004
) -> tuple[list[list[float]], list[float]]:
    """Losses with what a seed brings to all its runs, and noise of every run."""
    shared = 0.03 * generator.standard_normal(seeds)
    ladder = [law(each) + shared + spread * generator.standard_normal(seeds) for each in TOKENS]
    arm = law(multiple * HORIZON) + shared + spread * generator.standard_normal(seeds)
    return [rung.tolist() for rung in ladder], arm.tolist()


@pytest.mark.parametrize("multiple", [1.0, 1.25])
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_intervals_cover_the_truth(seeds: int, multiple: float) -> None:
    generator = np.random.default_rng(seeds)
    hits = []
    for _ in range(1000):
        found = ladder_multiplier(TOKENS, *study(generator, seeds, multiple), at=HORIZON)
        hits.append((found.low or 0.0) <= multiple <= (found.high or math.inf))
    assert 0.93 <= np.mean(hits) <= 0.97


def test_the_interval_is_where_the_paired_t_test_does_not_reject() -> None:
    ladder, arm = study(np.random.default_rng(3), 4, 1.25)
    found = ladder_multiplier(TOKENS, ladder, arm, at=HORIZON)
    assert found.low is not None
    assert found.value is not None
    assert found.high is not None
    assert 0.5 < found.low < found.value < found.high < 2.0
    log_tokens = np.log(TOKENS)

    def p(multiple: float) -> float:
        at = [
            np.interp(math.log(multiple * HORIZON), log_tokens, np.log([rung[s] for rung in ladder])) for s in range(4)
        ]
        return float(scipy.stats.ttest_rel(np.log(arm), at).pvalue)

    assert (p(found.low), p(found.high)) == pytest.approx((0.05, 0.05), abs=1e-4)
    assert p(found.value) > 0.9


def test_more_confidence_is_a_wider_interval() -> None:
    ladder, arm = study(np.random.default_rng(3), 5, 1.25)
    narrow, wide = (ladder_multiplier(TOKENS, ladder, arm, at=HORIZON, confidence=c) for c in (0.8, 0.95))
    assert wide.low is not None
    assert narrow.low is not None
    assert wide.low < narrow.low < 1.25 < (narrow.high or math.inf) < (wide.high or math.inf)
    assert (narrow.confidence, wide.confidence) == (0.8, 0.95)


def test_an_end_that_seeds_do_not_exclude_is_open() -> None:
    """Three seeds and an arm at 1.98: an answer beyond 2 is not excluded."""
    ladder, arm = study(np.random.default_rng(5), 3, 1.98)
    found = ladder_multiplier(TOKENS, ladder, arm, at=HORIZON)
    assert found.high is None
    assert found.low is not None
    assert found.words.endswith(f"({found.low:.2f}–above 2)")


def test_a_bound_that_is_shown_and_one_that_is_not() -> None:
    far = ladder_multiplier(TOKENS, *study(np.random.default_rng(6), 5, 4.0), at=HORIZON)
    assert (far.value, far.side, far.low, far.high) == (None, "above", pytest.approx(2.0), None)
    assert far.words == "more than 2×"
    worse = ladder_multiplier(TOKENS, *study(np.random.default_rng(6), 5, 0.2), at=HORIZON)
    assert (worse.value, worse.side, worse.low, worse.high) == (None, "below", None, pytest.approx(0.5))
    assert worse.words == "less than 0.5×"

    ladder, _ = study(np.random.default_rng(7), 3, 1.0)
    barely = [0.999 * loss + 0.01 * sign for loss, sign in zip(ladder[-1], (-1, 0, 1), strict=True)]
    found = ladder_multiplier(TOKENS, ladder, barely, at=HORIZON)
    assert found.side == "above"
    assert found.low is not None
    assert found.low < 2.0
    assert found.words == f"more than 2× ({found.low:.2f}–above 2)"


def test_one_seed_has_no_interval_and_seeds_without_spread_a_point() -> None:
    alone = exact(1.25)
    assert (alone.pairs, alone.low, alone.high, alone.words) == (1, None, None, "1.25×")
    certain = exact(1.25, seeds=3)
    assert certain.low is not None
    assert certain.high is not None
    assert certain.low <= 1.25 <= certain.high
    assert certain.high / certain.low < 1.001
    assert certain.words == "1.25× (1.25–1.25)"


@pytest.mark.parametrize(
    ("tokens", "ladder", "arm", "complaint"),
    [
        ([1.0], [[3.0]], [3.0], "2 rungs"),
        ([2.0, 1.0], [[3.0], [2.9]], [3.0], "ascending"),
        ([1.0, 1.0], [[3.0], [2.9]], [3.0], "ascending"),
        ([1.0, 2.0], [[3.0]], [3.0], "every rung"),
        ([1.0, 2.0], [[3.0], [2.9]], [3.0, 2.9], "every seed"),
        ([1.0, 2.0], [[], []], [], "every seed"),
        ([1.0, 2.0], [[3.0], [math.nan]], [3.0], "logarithm"),
        ([1.0, 2.0], [[3.0], [2.0]], [-1.0], "logarithm"),
    ],
)
def test_what_is_no_ladder_is_refused(
    tokens: Sequence[float], ladder: Sequence[Sequence[float]], arm: Sequence[float], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        ladder_multiplier(tokens, ladder, arm, at=1.0)
