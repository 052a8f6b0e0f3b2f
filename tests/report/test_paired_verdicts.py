"""Which of the three kinds of outcome an arm gets, with figures recomputed from the files by scipy.stats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from attnres_cli.report.group_plan import Plan
from attnres_cli.report.paired_verdicts import NO_VERDICT, PairedVerdict, paired_verdicts
from attnres_cli.runs.directory import RunDirectory
from tests.fabricated_runs import FULL_SCHEME, LUCK, fabricate_arm, loss_at
from tests.report.groups import BASE, BLOCK, NOT_SHOWN, SHOWN, baseline, block, comparison, end, full, raw


def judge(runs: list[RunDirectory], **how: Any) -> PairedVerdict:
    [found] = paired_verdicts(comparison(runs, **how))
    return found


def power(effect: float, deviation: float, n: int, alpha: float) -> float:
    """Of the two-sided paired t-test, by scipy's noncentral t."""
    shift, critical = effect * np.sqrt(n) / deviation, stats.t.ppf(1 - alpha / 2, n - 1)
    return float(stats.nct.sf(critical, n - 1, shift) + stats.nct.cdf(-critical, n - 1, shift))


# ------------------------------------------------------------------ shown, not shown


@pytest.mark.parametrize(("better_by", "outcome"), [(SHOWN, "better"), (NOT_SHOWN, "not shown")])
def test_every_figure_is_that_of_a_paired_t_test(tmp_path: Path, better_by: tuple[float, ...], outcome: str) -> None:
    base, other = baseline(tmp_path), block(tmp_path, better_by)
    verdict = judge([*base, *other])
    ours, theirs = ([end(run) for run in runs] for runs in (other, base))
    test = stats.ttest_rel(ours, theirs)
    limits = test.confidence_interval(0.95)
    assert verdict.outcome == outcome
    assert verdict.seeds == (0, 1, 2, 3, 4)
    assert verdict.tokens == 204800
    assert verdict.difference is not None
    assert verdict.difference.differences == tuple(a - b for a, b in zip(ours, theirs, strict=True))
    assert verdict.difference.mean == pytest.approx(np.mean(ours) - np.mean(theirs), abs=1e-13)
    assert (verdict.difference.low, verdict.difference.high) == pytest.approx((limits.low, limits.high), abs=1e-12)
    assert verdict.difference.p == pytest.approx(test.pvalue, rel=1e-9)
    assert verdict.p_holm == verdict.difference.p, "one arm needs no correction"
    assert verdict.smallest_detectable is not None
    assert power(verdict.smallest_detectable, verdict.difference.standard_deviation, 5, 0.05) == pytest.approx(
        0.8, abs=1e-6
    )


def test_what_is_said_of_a_shown_difference(tmp_path: Path) -> None:
    sentence = judge([*baseline(tmp_path), *block(tmp_path)]).sentence
    assert sentence.startswith(f"{BLOCK}: shown to be better than {BASE}: -0.0526 nats at 204,800 tokens, the end of")
    assert "95 % interval -0.0600 to -0.0452; paired t, 5 pairs, p < 0.0001" in sentence
    assert "With this spread 5 pairs find 0.0100 nats or more four times in five." in sentence


def test_worse_is_shown_as_plainly(tmp_path: Path) -> None:
    verdict = judge([*baseline(tmp_path), *block(tmp_path, [-value for value in SHOWN])])
    assert verdict.outcome == "worse"
    assert f"shown to be worse than {BASE}: +0.0526 nats" in verdict.sentence


def test_not_shown_is_a_tilde_and_says_what_would_have_been(tmp_path: Path) -> None:
    verdict = judge([*baseline(tmp_path), *block(tmp_path, NOT_SHOWN)])
    assert f"{BLOCK}: ~ no difference from {BASE} is shown" in verdict.sentence
    assert "5 pairs find a difference of 0.0237 nats or more four times in five; a smaller one may be there" in (
        verdict.sentence
    )
    assert verdict.survives is None
    assert "sign" not in verdict.sentence


def test_equal_to_the_last_bit_is_an_outcome_of_its_own(tmp_path: Path) -> None:
    verdict = judge([*baseline(tmp_path), *block(tmp_path, [0.0] * 5)])
    assert verdict.outcome == "equal"
    assert verdict.p_holm == 1.0
    assert "the same validation loss to the last bit in all 5 pairs" in verdict.sentence


def test_pairing_takes_the_luck_of_the_seed_out(tmp_path: Path) -> None:
    """Unpaired, the same figures would show nothing: the seeds spread wider than the effect."""
    base, other = baseline(tmp_path), block(tmp_path, [0.02, 0.021, 0.019, 0.022, 0.018])
    unpaired = stats.ttest_ind([end(run) for run in other], [end(run) for run in base])
    assert unpaired.pvalue > 0.2
    assert judge([*base, *other]).outcome == "better"


# ------------------------------------------------------------------ several arms


BARELY = (0.004, 0.016, 0.011, 0.018, 0.0005)


def test_holm_corrects_over_the_arms_that_are_tested(tmp_path: Path) -> None:
    base, one, two = baseline(tmp_path), block(tmp_path, BARELY), full(tmp_path, NOT_SHOWN)
    alone = judge([*base, *one])
    assert alone.outcome == "better"
    first, second = paired_verdicts(comparison([*base, *one, *two]))
    raw_p = [stats.ttest_rel([end(run) for run in runs], [end(run) for run in base]).pvalue for runs in (one, two)]
    assert raw_p[0] < 0.05 < 2 * raw_p[0]
    assert (first.p_holm, second.p_holm) == pytest.approx((2 * raw_p[0], raw_p[1]), rel=1e-9)
    assert first.outcome == "not shown"
    assert "alone it would be shown" in first.sentence
    assert "after Holm's correction over 2 arms" in first.sentence
    assert first.smallest_detectable is not None
    assert first.difference is not None
    assert power(first.smallest_detectable, first.difference.standard_deviation, 5, 0.025) == pytest.approx(
        0.8, abs=1e-6
    )


def test_an_arm_that_cannot_be_tested_costs_the_others_nothing(tmp_path: Path) -> None:
    base, one = baseline(tmp_path), block(tmp_path, BARELY)
    few = fabricate_arm(tmp_path, "few", residual=FULL_SCHEME, better_by=[0.1, 0.1])
    first, second = paired_verdicts(comparison([*base, *one, *few]))
    assert (first.outcome, first.tested) == ("better", 1)
    assert (second.outcome, second.p_holm) == ("too few", None)


# ------------------------------------------------------------------ no verdict


@pytest.mark.parametrize("pairs", [0, 1, 2])
def test_fewer_than_three_pairs_never_give_a_verdict(tmp_path: Path, pairs: int) -> None:
    runs = [*baseline(tmp_path, 5), *block(tmp_path, [0.5] * pairs, seeds=range(pairs)),
            *block(tmp_path, [0.5], seeds=[6])]  # fmt: skip
    verdict = judge(runs)
    assert verdict.outcome == "too few"
    assert not verdict.has_verdict
    assert (verdict.p_holm, verdict.smallest_detectable) == (None, None)
    assert f"no verdict against {BASE} (too few): {pairs} pair" in verdict.sentence
    assert f"fewer than 3 never give one: {3 - pairs} more pair" in verdict.sentence
    assert f"without a partner: {BLOCK}-s6" in verdict.sentence
    assert (verdict.difference is not None) is (pairs == 2)


@pytest.mark.parametrize("status", ["interrupted", "failed", "diverged"])
@pytest.mark.parametrize("which", [BASE, BLOCK])
def test_unfinished_schedules_never_give_one(tmp_path: Path, status: str, which: str) -> None:
    unfinished = {"until_step": 80, "status": status}
    base = baseline(tmp_path, **(unfinished if which == BASE else {}))
    verdict = judge([*base, *block(tmp_path, **(unfinished if which == BLOCK else {}))])
    assert verdict.outcome == ("diverged" if status == "diverged" else "unfinished")
    assert f"{which}-s0 is not finished ({status} at step 80 of 100)" in verdict.sentence
    assert verdict.difference is None


def test_a_run_without_its_last_evaluation_is_in_no_pair(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path, 3), *block(tmp_path, [0.1] * 3)]
    runs[4].truncate_metrics(after_step=90)
    verdict = judge(runs)
    assert verdict.outcome == "unfinished"
    assert f"{BLOCK}-s1 was not evaluated at the end of its schedule" in verdict.sentence


def test_a_verdict_is_not_read_while_runs_go_on(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path, 6), *block(tmp_path)]
    runs += block(tmp_path, [0.05], seeds=[5], until_step=60, status="running")
    verdict = judge(runs)
    assert verdict.outcome == "unfinished"
    assert f"{BLOCK}-s5 is running at step 60 of 100" in verdict.sentence
    assert verdict.difference is not None, "the pairs that ended are in the tables"
    assert verdict.difference.n == 5


def test_a_verdict_is_not_read_while_planned_runs_have_not_begun(tmp_path: Path) -> None:
    found = comparison([*baseline(tmp_path), *block(tmp_path)])
    for arm in (BASE, BLOCK):
        [verdict] = paired_verdicts(replace(found, plan=Plan({arm: (f"{arm} seed 5 is planned",)})))
        assert verdict.outcome == "unfinished"
        assert f"{arm} seed 5 is planned; looking before the end" in verdict.sentence


def test_seeds_that_were_added_later_make_a_finding_exploratory(tmp_path: Path) -> None:
    found = comparison([*baseline(tmp_path), *block(tmp_path)])
    for seeds, exploratory in (({3, 4}, True), ({7}, False), (set(), False)):
        [verdict] = paired_verdicts(replace(found, plan=Plan(added_seeds=frozenset(seeds))))
        assert (verdict.outcome, bool(verdict.exploratory)) == ("better", exploratory)
        assert verdict.to_dict()["exploratory"] is exploratory
        assert ("Exploratory: seeds were added after results were there" in verdict.sentence) is exploratory


@pytest.mark.parametrize("status", ["interrupted", "failed"])
def test_a_lost_run_is_named_and_the_others_are_compared(tmp_path: Path, status: str) -> None:
    runs = [*baseline(tmp_path, 6), *block(tmp_path), *block(tmp_path, [0.0], seeds=[5], until_step=40, status=status)]
    verdict = judge(runs)
    assert (verdict.outcome, verdict.seeds) == ("better", (0, 1, 2, 3, 4))
    assert f"Left out with its partner: {BLOCK}-s5 is not finished ({status} at step 40 of 100)" in verdict.sentence


def test_the_arm_that_loses_runs_by_diverging_is_not_called_better(tmp_path: Path) -> None:
    diverged = {"seeds": [5], "until_step": 40, "status": "diverged"}
    runs = [*baseline(tmp_path, 6), *block(tmp_path), *block(tmp_path, [0.0], **diverged)]
    verdict = judge(runs)
    assert verdict.outcome == "diverged"
    assert f"{BLOCK}-s5 diverged" in verdict.sentence
    assert verdict.difference is not None


def test_the_arm_that_loses_runs_by_diverging_may_be_called_worse(tmp_path: Path) -> None:
    diverged = {"seeds": [5], "until_step": 40, "status": "diverged"}
    worse = [-value for value in SHOWN]
    runs = [*baseline(tmp_path, 6), *block(tmp_path, worse), *block(tmp_path, [0.0], **diverged)]
    assert judge(runs).outcome == "worse"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"train.tokens_per_step": 4096}, "train.tokens_per_step (2048 / 4096)"),
        ({"model.norm_epsilon": 1e-6}, "model.norm_epsilon (1e-12 / 1e-06)"),
        ({"model.transformer_blocks": 6}, "the models differ in shape"),
    ],
)
def test_unfair_pairs_give_no_verdict_but_what_differs(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    verdict = judge([*baseline(tmp_path), *block(tmp_path, change=change)])
    assert verdict.outcome == "unfair"
    assert named in verdict.sentence
    assert "better" not in verdict.sentence


def test_kinds_of_outcomes_are_never_mixed_up(tmp_path: Path) -> None:
    kinds = {
        "shown": judge([*baseline(tmp_path / "a"), *block(tmp_path / "a")]),
        "not shown": judge([*baseline(tmp_path / "b"), *block(tmp_path / "b", NOT_SHOWN)]),
        "no verdict": judge([*baseline(tmp_path / "c", 2), *block(tmp_path / "c", [0.1, 0.1])]),
    }
    for kind, verdict in kinds.items():
        assert verdict.to_dict()["kind"] == kind
        assert (verdict.outcome in NO_VERDICT) is (kind == "no verdict")


def test_a_tuned_value_may_differ_and_is_named(tmp_path: Path) -> None:
    verdict = judge([*baseline(tmp_path), *block(tmp_path, change={"train.learning_rate": 0.001})])
    assert verdict.outcome == "better"
    assert "Fair only if each arm has its own best value of train.learning_rate (0.003 / 0.001)." in verdict.sentence


# ------------------------------------------------------------------ equal FLOPs, equal seconds


def expected_at(
    base: list[RunDirectory], other: list[RunDirectory], dearest: float, *, block_leads: bool
) -> list[float]:  # fmt: skip
    """Differences with the leading arm read at its last evaluation before its share of the budget, from the files."""
    found = []
    for ours, theirs in zip(other, base, strict=True):
        leader = ours if block_leads else theirs
        rows = [row for row in raw(leader) if row["kind"] == "eval" and row["tokens"] <= 204800 / dearest]
        early = max(rows, key=lambda row: row["tokens"])["loss"]
        found.append(early - end(theirs) if block_leads else end(ours) - early)
    return found


@pytest.mark.parametrize(
    ("flops", "better", "leads", "dearest", "survives"),
    [
        (1.0e6, 0.05, True, None, True),  # no dearer
        (0.9e6, 0.05, True, None, True),  # cheaper
        (1.01e6, 0.3, True, 1.01, True),  # dearer, but far enough ahead at its evaluation before the budget ends
        (1.01e6, 0.01, True, 1.01, False),  # dearer, and not
        (1.01e6, -0.3, False, None, True),  # the baseline is ahead and cheaper
        (0.8e6, -0.01, False, 1.25, False),  # the baseline is ahead by little and dearer
    ],
)
def test_the_pairs_at_equal_flops(
    tmp_path: Path, flops: float, better: float, leads: bool, dearest: float | None, survives: bool
) -> None:
    base = baseline(tmp_path)
    other = block(tmp_path, [better + 0.001 * (seed - 2) for seed in range(5)], flops_per_token=flops)
    verdict = judge([*base, *other])
    assert verdict.outcome == ("better" if leads else "worse")
    found = verdict.at_equal[0]
    assert found.budget == "FLOPs"
    assert found.cost == (flops / 1e6, flops / 1e6)
    assert found.difference is not None
    assert found.bound == ("upper" if leads else "lower")
    if dearest is None:
        assert (found.early, found.difference) == (None, verdict.difference)
    else:
        assert found.early == (BLOCK if leads else BASE)
        wanted = expected_at(base, other, dearest, block_leads=leads)
        assert found.difference.differences == pytest.approx(wanted, abs=1e-14)
        limits = stats.ttest_1samp(wanted, 0.0).confidence_interval(0.95)
        assert (found.difference.low, found.difference.high) == pytest.approx((limits.low, limits.high), abs=1e-12)
    assert (verdict.survives or {})["FLOPs"] is survives


def test_equal_seconds_are_judged_by_the_upper_end_of_the_interval(tmp_path: Path) -> None:
    base, other = baseline(tmp_path), block(tmp_path, [0.03, 0.031, 0.029])
    verdict = judge([*base[:3], *other], slower=0.99)
    found = verdict.at_equal[1]
    assert found.cost == pytest.approx((0.99 * 0.98, 0.99 * 1.03))
    assert found.early == BLOCK
    wanted = expected_at(base[:3], other, 0.99 * 1.03, block_leads=True)
    assert found.difference is not None
    assert found.difference.differences == pytest.approx(wanted, abs=1e-14)
    assert found.tokens == 80 * 2048
    assert (verdict.survives or {})["seconds"] is False
    assert "0.97 to 1.02× the seconds per token, so attnres-block is read early there" in verdict.sentence
    assert "before its learning rate had decayed: that can hide an advantage, not invent one" in verdict.sentence


def test_one_sentence_says_whether_the_sign_survives_all_three(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path), *block(tmp_path, [0.3, 0.31, 0.29, 0.3, 0.32], flops_per_token=1.0e6)]
    assert "The sign survives all three: equal tokens, equal FLOPs, equal seconds." in judge(runs, slower=0.9).sentence
    sentence = judge(runs, slower=2.5).sentence
    assert "The sign holds at equal tokens and equal FLOPs, but is not shown at equal seconds." in sentence
    sentence = judge(runs, slower=None).sentence
    assert "The sign holds at equal tokens and equal FLOPs, but is not known at equal seconds." in sentence


@pytest.mark.parametrize("every_steps", [0, 100])  # 100: one before the first step, which is no training, and one after
def test_no_evaluation_within_the_budget_is_not_known(tmp_path: Path, every_steps: int) -> None:
    change = {"eval.every_steps": every_steps}
    verdict = judge([*baseline(tmp_path, change=change), *block(tmp_path, change=change)])
    assert verdict.outcome == "better"
    assert (verdict.survives or {})["FLOPs"] is None
    assert verdict.at_equal[0].difference is None


def test_the_fabricated_losses_are_what_they_say(tmp_path: Path) -> None:
    [run] = block(tmp_path, [0.05], seeds=[3])
    assert end(run) == loss_at(100, 0.05, LUCK[3])
