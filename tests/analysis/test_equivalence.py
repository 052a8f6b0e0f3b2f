"""Equivalence within a margin: against scipy's one-sided tests, the interval rule, and its errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from attnres_cli.analysis.equivalence import equivalence_p
from attnres_cli.analysis.paired import paired_difference
from tests.analysis.studies import paired_losses

OURS, THEIRS = [2.311, 2.305, 2.347, 2.319], [2.310, 2.304, 2.349, 2.321]


@pytest.mark.parametrize("margin", [0.0005, 0.002, 0.005, 0.1])
def test_it_is_the_larger_of_two_one_sided_tests(margin: float) -> None:
    difference = np.subtract(OURS, THEIRS)
    above = scipy.stats.ttest_1samp(difference, -margin, alternative="greater").pvalue
    below = scipy.stats.ttest_1samp(difference, margin, alternative="less").pvalue
    assert equivalence_p(paired_difference(OURS, THEIRS), margin) == pytest.approx(max(above, below), rel=1e-9)


@pytest.mark.parametrize("effect", [-0.006, -0.002, 0.0, 0.004])
def test_equivalent_is_an_interval_within_the_margin(effect: float) -> None:
    """p < 0.05 exactly when the 90 % interval of the mean lies within ± margin."""
    ours, theirs = paired_losses(200, 5, effect, seed=5)
    for study in zip(ours.tolist(), theirs.tolist(), strict=True):
        found = paired_difference(*study, confidence=0.9)
        assert (equivalence_p(found, 0.006) < 0.05) == (found.low > -0.006 and found.high < 0.006)


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("n", [3, 10])
def test_arms_that_differ_by_the_margin_rarely_pass(n: int, side: int) -> None:
    margin = 0.02
    ours, theirs = paired_losses(3000, n, side * margin, seed=n)
    passed = np.mean(
        [
            equivalence_p(paired_difference(*study), margin) < 0.05
            for study in zip(ours.tolist(), theirs.tolist(), strict=True)
        ]
    )
    assert passed == pytest.approx(0.05, abs=0.01)


def test_equal_arms_pass_where_the_margin_allows() -> None:
    ours, theirs = paired_losses(500, 10, 0.0, seed=1)
    studies = list(zip(ours.tolist(), theirs.tolist(), strict=True))
    assert np.mean([equivalence_p(paired_difference(*study), 0.01) < 0.05 for study in studies]) > 0.95
    assert np.mean([equivalence_p(paired_difference(*study), 0.0005) < 0.05 for study in studies]) < 0.06


def test_differences_without_spread() -> None:
    half = paired_difference([1.5, 2.5, 3.5], [1.0, 2.0, 3.0])
    assert [equivalence_p(half, margin) for margin in (0.4, 0.5, 0.6)] == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("margin", [0.0, -0.1, math.nan, math.inf])
def test_a_margin_is_above_zero(margin: float) -> None:
    with pytest.raises(ValueError, match="margin"):
        equivalence_p(paired_difference(OURS, THEIRS), margin)
