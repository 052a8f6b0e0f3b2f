"""Claims: every test against scipy, the outcomes of a table, and what a design can decide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attnres_cli.analysis.claims import (
    Assumed,
    AssumedRounds,
    Expected,
    Finding,
    decidable,
    judge_mean,
    judge_median,
    outcomes,
)

VALUES = [-0.031, -0.012, -0.044, -0.020, -0.027]


@pytest.mark.parametrize("bound", [0.0, -0.02, 0.01])
def test_a_mean_is_judged_by_the_t_test(bound: float) -> None:
    below, above = judge_mean(VALUES, "below", bound), judge_mean(VALUES, "above", bound)
    assert below is not None
    assert above is not None
    expected = stats.ttest_1samp(VALUES, bound)
    assert below.p == above.p == pytest.approx(expected.pvalue, rel=1e-12)
    assert below.estimate == pytest.approx(np.mean(VALUES))
    low, high = stats.ttest_1samp(VALUES, 0.0).confidence_interval()
    assert (below.low, below.high) == pytest.approx((low, high))
    assert below.supports is bool(np.mean(VALUES) < bound)
    assert above.supports is not below.supports


def test_equality_is_two_one_sided_tests() -> None:
    values = [0.001, -0.003, 0.002, 0.0005, -0.001]
    found = judge_mean(values, "within", 0.01)
    assert found is not None
    upper = stats.ttest_1samp(values, 0.01, alternative="less").pvalue
    lower = stats.ttest_1samp(values, -0.01, alternative="greater").pvalue
    assert found.p == pytest.approx(max(upper, lower), rel=1e-12)
    assert found.supports


def test_outside_the_margin_equality_is_contradicted_by_the_nearer_bound() -> None:
    found = judge_mean(VALUES, "within", 0.005)
    assert found is not None
    assert found.p == pytest.approx(stats.ttest_1samp(VALUES, -0.005, alternative="less").pvalue, rel=1e-12)
    assert not found.supports


@pytest.mark.parametrize("values", [[0.01, 0.01, 0.01], [0.0, 0.0, 0.0]])
def test_values_without_a_spread_are_certain(values: list[float]) -> None:
    found = judge_mean(values, "within", 0.02)
    assert found is not None
    assert (found.p, found.supports) == (0.0, True)


def test_two_seeds_are_too_few() -> None:
    assert judge_mean([0.1, 0.2], "above", 0.0) is None


@given(st.lists(st.floats(0.9, 1.2), min_size=6, max_size=40), st.floats(0.95, 1.1))
def test_a_median_is_judged_by_the_sign_test(ratios: list[float], bound: float) -> None:
    found = judge_median(ratios, bound, (1.0, 0.9, 1.1))
    below, n = sum(ratio < bound for ratio in ratios), sum(ratio != bound for ratio in ratios)
    expected = stats.binomtest(below, n).pvalue if n else 1.0
    assert found.p == pytest.approx(expected, rel=1e-9)
    assert found.supports is (below > n - below)


def test_every_claim_of_a_table_is_corrected_together() -> None:
    def finding(p: float, supports: bool = True) -> Finding:
        return Finding(0.1, 0.0, 0.2, p, supports, 5)

    found = outcomes({"a": finding(0.001), "b": finding(0.02, False), "c": finding(0.03), "d": None})
    assert found == {
        "a": ("confirmed", pytest.approx(0.003)),
        "b": ("contradicted", pytest.approx(0.04)),
        "c": ("confirmed", pytest.approx(0.04)),
        "d": ("too few", None),
    }
    assert outcomes({"a": finding(0.02), "b": finding(0.03)})["b"][0] == "confirmed"
    assert outcomes({"a": finding(0.03), "b": finding(0.04)})["a"][0] == "not shown"


def test_the_weakest_claims_are_left_out_until_the_rest_has_power() -> None:
    strong, weak = Assumed(0.05, 0.01, 6), Assumed(0.002, 0.01, 6)
    found = decidable({"strong": strong, "weak": weak, "middle": Assumed(0.03, 0.01, 6)})
    assert {key: tested for key, (tested, _) in found.items()} == {"strong": True, "weak": False, "middle": True}
    assert found["strong"][1] == strong.power(0.05 / 2)
    assert found["weak"][1] == weak.power(0.05 / 3)


def test_tests_that_are_made_in_any_case_count() -> None:
    claim = {"only": Assumed(0.02, 0.01, 6)}
    assert decidable(claim)["only"] == (True, pytest.approx(Assumed(0.02, 0.01, 6).power(0.05)))
    assert decidable(claim, certain=9)["only"] == (False, pytest.approx(Assumed(0.02, 0.01, 6).power(0.005)))


def test_no_effect_at_all_makes_few_tables_say_anything() -> None:
    """The whole of what a table does, over many tables of claims that are all on their bound."""
    draws = np.random.default_rng(7).normal(size=(3000, 6, 5))
    wrong = 0
    for table in draws:
        findings = {str(index): judge_mean(values.tolist(), "below", 0.0) for index, values in enumerate(table)}
        wrong += any(outcome in ("confirmed", "contradicted") for outcome, _ in outcomes(findings).values())
    assert 0.035 < wrong / len(draws) < 0.06  # Holm is exact at most 5 %, and a little below it


@pytest.mark.parametrize(("n", "alpha"), [(21, 0.003), (61, 0.003), (9, 0.01), (6, 0.01)])
def test_the_power_of_a_bench_is_the_share_of_benches_that_show_it(n: int, alpha: float) -> None:
    """Rounds scatter about 3 % where the bound is 4 %; a bench of too few rounds can never show anything."""
    rng = np.random.default_rng(5)
    ratios = np.exp(rng.normal(math.log(1.03), 0.012, size=(4000, n)))
    found = [judge_median(each.tolist(), 1.04, (1.0, 1.0, 1.0)) for each in ratios]
    share = float(np.mean([each.supports and each.p < alpha for each in found]))
    power = AssumedRounds(math.log(1.03 / 1.04), 0.012, n).power(alpha)
    assert math.isclose(share, power, abs_tol=0.02)
    assert (power == 0.0) is (n == 6)


@pytest.mark.parametrize("within", [False, True])
def test_the_power_before_is_the_share_found_after(within: bool) -> None:
    alpha, n = 0.01, 6
    assumed = Assumed(0.03, 0.01, n, within)
    rng = np.random.default_rng(3)
    means = 0.0 if within else 0.03
    draws = rng.normal(means, 0.01, size=(4000, n))
    expected: Expected = "within" if within else "above"
    found = [judge_mean(values.tolist(), expected, 0.03 if within else 0.0) for values in draws]
    share = float(np.mean([each is not None and each.supports and each.p < alpha for each in found]))
    assert math.isclose(share, assumed.power(alpha), abs_tol=0.02)
