"""Power of the paired t-test: against scipy's noncentral t, against simulated studies, and its inverses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from attnres_cli.analysis.paired import paired_difference
from attnres_cli.analysis.power import pairs_needed, power_of, smallest_detectable
from tests.analysis.studies import DIFFERENCE_SPREAD, paired_losses


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("n", [2, 3, 5, 10, 200])
@pytest.mark.parametrize("noncentrality", [0.0, 0.5, 1.0, 2.5, 4.0])
def test_power_is_that_of_the_noncentral_t(n: int, alpha: float, noncentrality: float) -> None:
    critical = scipy.stats.t.isf(alpha / 2, n - 1)
    expected = scipy.stats.nct.sf(critical, n - 1, noncentrality) + scipy.stats.nct.cdf(-critical, n - 1, noncentrality)
    effect = noncentrality * 0.02 / math.sqrt(n)
    assert power_of(effect, 0.02, n, alpha=alpha) == pytest.approx(expected, abs=1e-6)
    assert power_of(-effect, 0.02, n, alpha=alpha) == power_of(effect, 0.02, n, alpha=alpha)


def test_figures_from_the_tables() -> None:
    """Cohen's d = 0.5 with 34 pairs, and d = 0.2 with 199, have 80 % power in every table of the paired t-test."""
    assert pairs_needed(0.5, 1.0) == 34
    assert pairs_needed(0.2, 1.0) == 199
    assert power_of(0.5, 1.0, 34) == pytest.approx(0.808, abs=5e-4)


@pytest.mark.parametrize(("n", "effect"), [(3, 0.015), (5, 0.008), (10, 0.005)])
def test_simulated_studies_have_the_promised_power(n: int, effect: float) -> None:
    ours, theirs = paired_losses(4000, n, effect, seed=n)
    shown = np.mean([paired_difference(*study).p < 0.05 for study in zip(ours.tolist(), theirs.tolist(), strict=True)])
    promised = power_of(effect, DIFFERENCE_SPREAD, n)
    assert 0.3 < promised < 0.95
    assert shown == pytest.approx(promised, abs=0.02)


@pytest.mark.parametrize("n", [2, 3, 5, 10, 1000])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.99])
def test_the_smallest_detectable_effect_has_that_power(n: int, power: float) -> None:
    effect = smallest_detectable(0.004, n, power=power)
    assert power_of(effect, 0.004, n) == pytest.approx(power, abs=1e-9)


def test_the_effect_scales_with_the_spread_and_shrinks_with_pairs() -> None:
    assert smallest_detectable(0.02, 5) == pytest.approx(5 * smallest_detectable(0.004, 5), rel=1e-9)
    effects = [smallest_detectable(1.0, n) for n in (2, 3, 5, 10, 100)]
    assert effects == sorted(effects, reverse=True)
    assert effects[-1] == pytest.approx(2.8 / 10, rel=0.02)  # (1.96 + 0.84) / √n for many


@pytest.mark.parametrize("effect", [0.02, 0.5, 1.7])
def test_one_pair_fewer_is_too_few(effect: float) -> None:
    n = pairs_needed(effect, 1.0)
    assert power_of(effect, 1.0, n) >= 0.8 > power_of(effect, 1.0, n - 1)


def test_never_fewer_pairs_than_a_verdict_takes() -> None:
    assert pairs_needed(100.0, 1.0) == 3
    assert pairs_needed(0.001, 0.0) == 3


def test_without_spread_every_effect_is_seen() -> None:
    assert smallest_detectable(0.0, 3) == 0.0
    assert power_of(1e-9, 0.0, 3) == 1.0
    assert power_of(0.0, 0.0, 3) == 0.05


def test_an_effect_far_beyond_the_spread_is_certain() -> None:
    assert power_of(100.0, 1.0, 3) == pytest.approx(1.0, abs=1e-9)
    assert power_of(1000.0, 1.0, 200) == pytest.approx(1.0, abs=1e-9)


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(ValueError, match="effect of zero"):
        pairs_needed(0.0, 1.0)
    with pytest.raises(ValueError, match="more than"):
        pairs_needed(1e-6, 1.0)
    with pytest.raises(ValueError, match="two pairs"):
        power_of(0.1, 1.0, 1)
    with pytest.raises(ValueError, match="standard deviation"):
        power_of(0.1, math.nan, 3)
    with pytest.raises(ValueError, match="power lies"):
        smallest_detectable(1.0, 3, power=0.05)
    with pytest.raises(ValueError, match="alpha"):
        power_of(0.1, 1.0, 3, alpha=5)
