"""Holm's correction: by hand, against its definition, and its familywise error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.analysis.multiple import holm
from attnres_cli.analysis.paired import paired_difference
from tests.analysis.studies import OWN_SPREAD, SEED_SPREAD


def test_a_worked_example_in_the_given_order() -> None:
    """Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1 is 0.02, 0.03, 0.06, 0.04, and none below the one before it."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02), abs=1e-15)


def test_one_test_is_not_corrected_and_nothing_exceeds_one() -> None:
    assert holm([0.04]) == (0.04,)
    assert holm([0.9, 0.8]) == (1.0, 1.0)
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.sampled_from([0.01, 0.05, 0.3]))
def test_shown_is_what_the_step_down_test_rejects(p_values: list[float], alpha: float) -> None:
    """Holm's own words: compare the k-th smallest of m with alpha / (m − k), and stop at the first that is larger."""
    rejected = set()
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[index] * (len(p_values) - rank) >= alpha:
            break
        rejected.add(index)
    assert {index for index, p in enumerate(holm(p_values)) if p < alpha} == rejected


@pytest.mark.parametrize("bad", [-0.1, 1.5, float("nan")])
def test_what_is_no_probability_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.5, bad])


def test_the_familywise_error_stays_at_alpha() -> None:
    """Six arms without an effect against one baseline, whose runs they share: without the correction, one study in six
    shows something."""
    generator = np.random.default_rng(3)
    studies, arms, n = 1500, 6, 5
    shared = SEED_SPREAD * generator.standard_normal((studies, n))
    baseline = shared + OWN_SPREAD * generator.standard_normal((studies, n))
    others = shared[:, None] + OWN_SPREAD * generator.standard_normal((studies, arms, n))
    p = [
        [paired_difference(arm, theirs).p for arm in ours]
        for ours, theirs in zip(others.tolist(), baseline.tolist(), strict=True)
    ]
    assert np.mean([min(each) < 0.05 for each in p]) > 0.14
    assert np.mean([min(holm(each)) < 0.05 for each in p]) <= 0.06
