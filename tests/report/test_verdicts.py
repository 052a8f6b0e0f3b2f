"""When a sentence may be said about two runs, and which one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attnres_cli.report.compared_run import read_runs
from attnres_cli.report.comparison import Comparison, SideBySide
from attnres_cli.report.verdicts import Verdict, verdicts
from tests.fabricated_runs import BLOCK_SCHEME, bench_result, fabricate, loss_at


def judge(tmp_path: Path, *, slower: float | None = None, a: dict[str, Any] | None = None, **b: Any) -> Verdict:
    """The verdict on a block run against a baseline run; `a` and `b` change either one."""
    runs = [fabricate(tmp_path, "a", **(a or {})), fabricate(tmp_path, "b", **{"residual": BLOCK_SCHEME, **b})]
    bench = None if slower is None else SideBySide(bench_result(["x", "y"], slower=slower), {"A": "x", "B": "y"})
    [found] = verdicts(Comparison.of_runs(read_runs(runs), 0, bench))
    return found


def test_a_lower_loss_of_one_run_each_is_reported_as_just_that(tmp_path: Path) -> None:
    verdict = judge(tmp_path, better_by=0.05)
    assert verdict.outcome == "lower"
    assert verdict.delta_nats == loss_at(100, 0.05) - loss_at(100, 0.0)
    assert verdict.tokens == 204800
    assert "is lower by 0.0500 nats than that of A prenorm at 204,800 tokens (100 steps)" in verdict.sentence
    assert "in one run of each; one seed shows no spread" in verdict.sentence
    assert "%" not in verdict.sentence


def test_a_higher_loss_is_reported_as_plainly(tmp_path: Path) -> None:
    verdict = judge(tmp_path, better_by=-0.05)
    assert verdict.outcome == "higher"
    assert "is higher by 0.0500 nats" in verdict.sentence


def test_equal_is_an_outcome_of_its_own(tmp_path: Path) -> None:
    verdict = judge(tmp_path)
    assert (verdict.outcome, verdict.delta_nats) == ("equal", 0.0)
    assert "have the same validation loss" in verdict.sentence
    assert verdict.holds_at_equal == {"FLOPs": None, "seconds": None}


def test_a_difference_smaller_than_the_decimals_is_not_shown_as_zero(tmp_path: Path) -> None:
    assert "lower by 1.0e-06 nats" in judge(tmp_path, better_by=1e-6).sentence


@pytest.mark.parametrize(
    ("flops", "better_by", "holds"),
    [
        (1.0e6, 0.05, True),  # no dearer
        (0.9e6, 0.05, True),  # cheaper
        (1.01e6, 0.3, True),  # dearer, but far enough ahead at its evaluation before the budget ends
        (1.01e6, 0.01, False),  # dearer, and not
        (1.01e6, -0.3, True),  # the baseline is ahead and cheaper
        (0.8e6, -0.001, False),  # the baseline is ahead by little and dearer
    ],
)
def test_the_sign_at_equal_flops(tmp_path: Path, flops: float, better_by: float, holds: bool) -> None:
    verdict = judge(tmp_path, better_by=better_by, flops_per_token=flops)
    assert (verdict.holds_at_equal or {})["FLOPs"] is holds
    # Recomputed: the better run at its last evaluation within the budget against the other one's end.
    better_cost = flops / 1e6 if better_by > 0 else 1e6 / flops
    ours, theirs = (better_by, 0.0) if better_by > 0 else (0.0, better_by)
    step = 100 if better_cost <= 1 else max(step for step in range(0, 101, 20) if step * better_cost <= 100)
    assert holds is (loss_at(step, ours) < loss_at(100, theirs))


def test_without_an_evaluation_within_the_budget_the_sign_is_unknown(tmp_path: Path) -> None:
    change = {"eval.every_steps": 100}
    verdict = judge(tmp_path, better_by=0.3, flops_per_token=1.1e6, a={"change": change}, change=change)
    assert (verdict.holds_at_equal or {})["FLOPs"] is None
    assert "At equal FLOPs: unknown, since B takes 1.1× per token and has no evaluation before" in verdict.sentence


def test_equal_seconds_need_a_bench(tmp_path: Path) -> None:
    verdict = judge(tmp_path, better_by=0.05)
    assert (verdict.holds_at_equal or {})["seconds"] is None
    assert "At equal seconds: unknown, since these arms were not timed beside each other." in verdict.sentence


def test_equal_seconds_are_judged_by_the_upper_end_of_the_interval(tmp_path: Path) -> None:
    verdict = judge(tmp_path, better_by=0.03, slower=0.99)  # 0.97 to 1.02 times as long
    assert (verdict.holds_at_equal or {})["seconds"] is False
    assert "At equal seconds (B takes 0.97 to 1.02× per token): B no longer ahead." in verdict.sentence


def test_equal_seconds_when_the_baseline_leads(tmp_path: Path) -> None:
    verdict = judge(tmp_path, better_by=-0.05, slower=1.3)
    assert (verdict.holds_at_equal or {})["seconds"] is True
    assert "A still ahead" in verdict.sentence


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"train.tokens_per_step": 4096}, "train.tokens_per_step (2048 / 4096)"),
        ({"train.seed": 7}, "train.seed (0 / 7)"),
        ({"train.schedule": "wsd", "train.decay_fraction": 0.2}, "train.schedule (cosine / wsd)"),
        ({"model.norm_epsilon": 1e-6}, "model.norm_epsilon (1e-12 / 1e-06)"),
        ({"train.precision": "bf16"}, "train.precision (fp32 / bf16)"),
    ],
)
def test_an_unfair_pair_gets_no_verdict_but_what_differs(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    verdict = judge(tmp_path, better_by=0.05, change=change)
    assert (verdict.outcome, verdict.delta_nats) == ("refused", None)
    assert "the pair is unfair" in verdict.sentence
    assert named in verdict.sentence
    assert "lower" not in verdict.sentence


def test_another_validation_set_gets_no_verdict(tmp_path: Path) -> None:
    verdict = judge(tmp_path, better_by=0.05, manifest={"data.validation_set_hash": "9" * 64})
    assert "data.validation_set_hash (cccccccccccc… / 999999999999…)" in verdict.sentence


def test_other_shapes_are_called_that(tmp_path: Path) -> None:
    verdict = judge(tmp_path, better_by=0.05, change={"model.transformer_blocks": 6})
    assert verdict.outcome == "refused"
    assert "differ in shape" in verdict.sentence
    assert "the pair is unfair" not in verdict.sentence


def test_a_tuned_value_may_differ_and_is_named(tmp_path: Path) -> None:
    verdict = judge(tmp_path, better_by=0.05, change={"train.learning_rate": 0.001})
    assert verdict.outcome == "lower"
    assert "Fair only if each run has its own best value of train.learning_rate (0.003 / 0.001)" in verdict.sentence


def test_timing_differences_forbid_nothing(tmp_path: Path) -> None:
    change = {"train.micro_batch_sequences": 16, "train.threads": 1}
    assert judge(tmp_path, better_by=0.05, change=change, manifest={"environment.threads": 1}).outcome == "lower"


@pytest.mark.parametrize("status", ["interrupted", "diverged", "failed", "running"])
@pytest.mark.parametrize("which", ["baseline", "other"])
def test_an_unfinished_run_gets_no_verdict_and_is_named(tmp_path: Path, status: str, which: str) -> None:
    unfinished = {"until_step": 40, "status": status}
    verdict = judge(tmp_path, a=unfinished) if which == "baseline" else judge(tmp_path, **unfinished)
    assert verdict.outcome == "refused"
    label = "A" if which == "baseline" else "B"
    assert f"run {label} is not finished ({status} at step 40 of 100)" in verdict.sentence


def test_a_run_without_its_last_evaluation_gets_no_verdict(tmp_path: Path) -> None:
    run = fabricate(tmp_path, "c", residual=BLOCK_SCHEME, better_by=0.05)
    run.truncate_metrics(after_step=90)
    found = Comparison.of_runs(read_runs([fabricate(tmp_path, "a"), run]))
    [verdict] = verdicts(found)
    assert "run B was not evaluated at the end of its schedule" in verdict.sentence


def test_an_unreadable_run_gets_no_verdict(tmp_path: Path) -> None:
    run = fabricate(tmp_path, "c")
    run.manifest_path.write_text("{")
    found = Comparison.of_runs(read_runs([fabricate(tmp_path, "a"), run, fabricate(tmp_path, "d", better_by=0.1)]))
    refused, fine = verdicts(found)
    assert "run B cannot be read" in refused.sentence
    assert fine.outcome == "lower"
