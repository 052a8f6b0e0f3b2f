"""Conditions over the figures of arms, and equivalence within a margin."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest
from scipy import stats

from attnres_cli.analysis.conditions import parse_condition
from attnres_cli.errors import ExitCode, UserError
from attnres_cli.report.compared_run import read_runs
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.demands import Demands
from attnres_cli.report.figures import METRICS, check_names, figures
from attnres_cli.runs.directory import RunDirectory
from tests.fabricated_runs import BLOCK_SCHEME, FULL_SCHEME, bench_result, fabricate, fabricate_arm, loss_at
from tests.report.groups import BASE, BLOCK, FULL, NOT_SHOWN, baseline, block, comparison, end, full, read


def judge(found: Comparison, *texts: str, margin: float | None = None) -> Demands:
    conditions = [parse_condition(text) for text in texts]
    check_names(conditions, found)
    return Demands.judge(found, conditions, margin)


@pytest.fixture
def runs(tmp_path: Path) -> list[RunDirectory]:
    return [*baseline(tmp_path), *block(tmp_path)]


# ------------------------------------------------------------------ figures


def test_every_figure_is_recomputed(runs: list[RunDirectory]) -> None:
    base, other = runs[:5], runs[5:]
    differences = [end(ours) - end(theirs) for ours, theirs in zip(other, base, strict=True)]
    test = stats.ttest_1samp(differences, 0.0)
    limits = test.confidence_interval(0.95)
    timed = bench_result(["x", "y"])["arms"]
    memory = [arm["resident_bytes"] + arm["step_peak_bytes"] for arm in timed]
    seconds = median(timed[1]["wall_seconds"])
    early = [next(row for row in reversed(read([run])[0].evaluations) if row["step"] == 80)["loss"] for run in other]
    earlier = [next(row for row in reversed(read([run])[0].evaluations) if row["step"] == 60)["loss"] for run in other]
    wanted: dict[str, float] = {
        "loss": fmean(end(run) for run in other),
        "perplexity": fmean(end(run, "perplexity") for run in other),
        "bits_per_byte": fmean(end(run, "bits_per_byte") for run in other),
        "runs": 5,
        "n": 5,
        "delta": fmean(differences),
        "low": limits.low,
        "high": limits.high,
        "p": float(test.pvalue),
        "p_holm": float(test.pvalue),
        "standard_deviation": stats.tstd(differences),
        "delta_flops": fmean(early) - fmean(end(run) for run in base),
        "delta_seconds": fmean(earlier) - fmean(end(run) for run in base),
        "flops_ratio": 1.02,
        "step_ratio": 1.3,
        "step_seconds": seconds,
        "tokens_per_second": 2048 / seconds,
        "peak_bytes": memory[1],
        "peak_ratio": memory[1] / memory[0],
    }
    found = figures(comparison(runs))[BLOCK]
    assert set(found) == set(METRICS) == {*wanted, "smallest_detectable"}
    for key, value in wanted.items():
        assert found[key] == pytest.approx(value, rel=1e-9), key
    shift = (found["smallest_detectable"] or 0) * math.sqrt(5) / wanted["standard_deviation"]
    assert stats.nct.sf(stats.t.ppf(0.975, 4), 4, shift) == pytest.approx(0.8, abs=1e-6)


def test_the_baseline_has_its_own_figures_and_no_difference(runs: list[RunDirectory]) -> None:
    found = figures(comparison(runs))[BASE]
    assert found["loss"] == pytest.approx(fmean(end(run) for run in runs[:5]))
    assert (found["runs"], found["step_ratio"], found["flops_ratio"]) == (5, 1.0, 1.0)
    assert {found[key] for key in ("n", "delta", "low", "high", "p", "p_holm")} == {None}


# ------------------------------------------------------------------ conditions


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("attnres-block.loss > baseline.loss + 0.01", False),
        ("attnres-block.loss > baseline.loss - 0.06", True),
        ("attnres-block.loss - prenorm.loss < -0.05", True),
        ("attnres-block.high >= 0", False),
        ("attnres-block.p < 0.05", True),
        ("attnres-block.n < 5", False),
        ("attnres-block.step_ratio > 1.04", True),
        ("prenorm.runs == 5", True),
    ],
)
def test_conditions(runs: list[RunDirectory], text: str, holds: bool) -> None:
    demands = judge(comparison(runs), text)
    assert [(each.text, each.holds) for each in demands.conditions] == [(text, holds)]
    assert demands.are_met is not holds
    assert str(holds).lower() in demands.conditions[0].said
    notice = demands.notice()
    assert notice is not None
    assert notice.title == f"--fail-on: {int(holds)} of 1 conditions hold"
    assert notice.tone == ("warning" if holds else "result")


@pytest.mark.parametrize(
    ("text", "says", "nearest"),
    [
        ("attnres-blok.loss > 1", "There is no arm 'attnres-blok'", "attnres-block"),
        ("attnres-block.los > 1", "An arm has no figure 'los'", "loss"),
        ("base.loss > 1", "There is no arm 'base'", "baseline"),
    ],
)
def test_a_name_that_nothing_has(runs: list[RunDirectory], text: str, says: str, nearest: str) -> None:
    with pytest.raises(UserError) as caught:
        judge(comparison(runs), text)
    assert caught.value.exit_code == ExitCode.USAGE
    assert says in caught.value.faults[0].what
    assert caught.value.faults[0].nearest == nearest


def test_a_figure_that_is_not_known_is_no_pass(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path, 3), *block(tmp_path, [0.1] * 3, until_step=40, status="diverged")]
    demands = judge(comparison(runs, slower=None), "attnres-block.loss > baseline.loss", "attnres-block.step_ratio > 2")
    assert [each.holds for each in demands.conditions] == [None, None]
    assert [fault.what for fault in demands.unknown] == [
        "attnres-block.loss > baseline.loss: attnres-block.loss is not known.",
        "attnres-block.step_ratio > 2: attnres-block.step_ratio is not known.",
    ]
    notice = demands.notice()
    assert notice is not None
    assert notice.tone == "warning"


def test_without_a_verdict_the_figures_of_the_test_are_not_known(tmp_path: Path) -> None:
    running = {"seeds": [5], "until_step": 60, "status": "running"}
    runs = [*baseline(tmp_path, 6), *block(tmp_path), *block(tmp_path, [0.05], **running)]
    found = figures(comparison(runs))[BLOCK]
    assert {found[key] for key in ("low", "high", "p", "p_holm")} == {None}
    assert found["delta"] == pytest.approx(fmean(end(runs[6 + seed]) - end(runs[seed]) for seed in range(5)))


def test_arms_with_settings_in_their_names_are_quoted(tmp_path: Path) -> None:
    runs = [
        *baseline(tmp_path, 3),
        *block(tmp_path, [0.1] * 3),
        *fabricate_arm(tmp_path, "four", residual={**BLOCK_SCHEME, "num_blocks": 4}, better_by=[0.2] * 3),
    ]
    found = comparison(runs)
    assert judge(found, '"attnres-block num_blocks=4".delta < "attnres-block num_blocks=2".delta').conditions[0].holds
    with pytest.raises(UserError):
        judge(found, "attnres-block.delta < 0")  # two arms are meant


def test_single_runs_have_figures_under_letter_and_scheme(tmp_path: Path) -> None:
    runs = [fabricate(tmp_path, "a"), fabricate(tmp_path, "b", residual=BLOCK_SCHEME, better_by=0.05)]
    found = Comparison.of_runs(read_runs(runs))
    delta = loss_at(100, 0.05) - loss_at(100, 0.0)
    for name in ("B", "attnres-block"):
        assert judge(found, f"{name}.delta < {delta + 1e-12}", f"{name}.n == 1").unmet == [
            f"{name}.delta < {delta + 1e-12}: {delta:.6g} < {delta:.6g} is true",
            f"{name}.n == 1: 1 == 1 is true",
        ]
    assert judge(found, "B.p < 1").conditions[0].holds is None


# ------------------------------------------------------------------ equivalence


def tost(differences: list[float], margin: float) -> float:
    return float(
        max(
            stats.ttest_1samp(differences, -margin, alternative="greater").pvalue,
            stats.ttest_1samp(differences, margin, alternative="less").pvalue,
        )
    )


@pytest.mark.parametrize(("margin", "shown"), [(0.03, True), (0.01, False)])
def test_equivalence_is_two_one_sided_tests(tmp_path: Path, margin: float, shown: bool) -> None:
    base, other = baseline(tmp_path), block(tmp_path, NOT_SHOWN)
    [found] = judge(comparison([*base, *other]), margin=margin).equivalence
    differences = [end(ours) - end(theirs) for ours, theirs in zip(other, base, strict=True)]
    assert found.p == pytest.approx(tost(differences, margin), rel=1e-9)
    limits = stats.ttest_1samp(differences, 0.0).confidence_interval(0.9)
    assert (found.low_nats, found.high_nats) == pytest.approx((limits.low, limits.high), abs=1e-12)
    assert found.is_shown is shown
    assert shown is bool(-margin < limits.low and limits.high < margin)


def test_a_shown_difference_can_still_be_small_enough(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path), *block(tmp_path, [0.004, 0.0041, 0.0039, 0.004, 0.0042])]
    assert judge(comparison(runs), margin=0.005).are_met
    assert not judge(comparison(runs), margin=0.004).are_met


@pytest.mark.parametrize(
    "how", [{"better_by": [0.0, 0.0]}, {"better_by": [0.0] * 3, "until_step": 40, "status": "failed"}]
)
def test_equivalence_is_not_shown_by_too_few_or_unfinished_runs(tmp_path: Path, how: dict[str, Any]) -> None:
    demands = judge(comparison([*baseline(tmp_path, 3), *block(tmp_path, **how)]), margin=10.0)
    assert not demands.are_met
    assert "equivalence is not shown" in demands.unmet[0]


@pytest.mark.parametrize("which", [BASE, BLOCK])
def test_an_arm_with_a_diverged_run_is_not_equivalent(tmp_path: Path, which: str) -> None:
    gone = {"seeds": [5], "until_step": 40, "status": "diverged"}
    runs = [*baseline(tmp_path), *block(tmp_path, [0.0001 * seed for seed in range(5)])]
    assert judge(comparison(runs), margin=0.01).are_met
    runs += baseline(tmp_path, **(gone if which == BASE else {"seeds": [5]}))
    runs += block(tmp_path, [0.0], **(gone if which == BLOCK else {"seeds": [5]}))
    demands = judge(comparison(runs), margin=0.01)
    assert not demands.are_met
    assert f"{which}-s5 diverged" in demands.unmet[0]


def test_every_arm_has_to_be_equivalent(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path), *block(tmp_path, [0.0] * 5), *full(tmp_path, [0.1] * 5)]
    demands = judge(comparison(runs), margin=0.01)
    assert [(each.arm, each.is_shown) for each in demands.equivalence] == [(BLOCK, True), (FULL, False)]
    assert not demands.are_met


def test_single_runs_show_no_equivalence(tmp_path: Path) -> None:
    runs = [fabricate(tmp_path, "a"), fabricate(tmp_path, "b", residual=FULL_SCHEME)]
    demands = judge(Comparison.of_runs(read_runs(runs)), margin=1.0)
    assert demands.unmet == ["B: not shown: one run shows no spread; 3 pairs of seeds at least"]
