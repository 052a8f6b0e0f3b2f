"""The tables of a comparison of groups: every number recomputed from the files of the runs."""

from __future__ import annotations

import math
import re
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import pytest
from scipy import stats

from attnres_cli.report.compare import compare_document, seeds_in_words
from attnres_cli.report.document import render
from attnres_cli.runs.directory import RunDirectory
from tests.fabricated_runs import BLOCK_SCHEME, bench_result, fabricate, fabricate_arm
from tests.report.groups import (
    BASE,
    BLOCK,
    FULL,
    as_json,
    baseline,
    block,
    comparison,
    end,
    full,
    raw,
)


@pytest.fixture
def arms(tmp_path: Path) -> dict[str, list[RunDirectory]]:
    return {BASE: baseline(tmp_path), BLOCK: block(tmp_path), FULL: full(tmp_path)}


def everyone(arms: dict[str, list[RunDirectory]]) -> list[RunDirectory]:
    return [run for runs in arms.values() for run in runs]


def rows(arms: dict[str, list[RunDirectory]], table: str) -> list[dict[str, Any]]:
    return list(as_json(comparison(everyone(arms)))["tables"][table]["rows"])


def summaries(runs: list[RunDirectory], observer: str) -> list[dict[str, Any]]:
    found = [raw(run, "probes/observations.jsonl") for run in runs]
    return [next(row["summary"] for row in lines if row["observer"] == observer) for lines in found]


def elementwise(lists: list[list[float]]) -> list[float]:
    return [fmean(each) for each in zip(*lists, strict=True)]


# ------------------------------------------------------------------ every number of every table


def test_losses(arms: dict[str, list[RunDirectory]]) -> None:
    for row, (name, runs) in zip(rows(arms, "loss"), arms.items(), strict=True):
        losses = [end(run) for run in runs]
        assert (row["arm"], row["runs"]) == (name, 5)
        assert row["loss_nats"] == pytest.approx(fmean(losses), abs=1e-14)
        limits = stats.t.interval(0.95, 4, loc=fmean(losses), scale=stats.sem(losses))
        assert (row["low_nats"], row["high_nats"]) == pytest.approx(limits, abs=1e-12)
        assert row["standard_deviation_nats"] == pytest.approx(stdev(losses), abs=1e-14)
        assert row["perplexity"] == pytest.approx(fmean(end(run, "perplexity") for run in runs), abs=1e-13)
        assert row["bits_per_byte"] == pytest.approx(fmean(end(run, "bits_per_byte") for run in runs), abs=1e-14)


def test_losses_of_runs_of_which_some_did_not_end(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path, 3), *block(tmp_path, [0.1, 0.1])]
    runs += block(tmp_path, [0.1], seeds=[2], until_step=50, status="interrupted")
    table = as_json(comparison(runs))["tables"]["loss"]
    assert [row["runs"] for row in table["rows"]] == [3, 2]
    assert table["rows"][1]["loss_nats"] == pytest.approx(fmean(end(run) for run in runs[3:5]), abs=1e-14)
    at_40 = [[row["loss"] for row in raw(run) if row["kind"] == "eval" and row["step"] == 40] for run in runs]
    for row, found in zip(table["rows"], (at_40[:3], at_40[3:]), strict=True):
        assert row["equal_tokens_loss_nats"] == pytest.approx(fmean(each[0] for each in found), abs=1e-14)
    assert f"{BLOCK}: without {BLOCK}-s2" in table["notes"]


def test_verdict_table(arms: dict[str, list[RunDirectory]]) -> None:
    base = [end(run) for run in arms[BASE]]
    tests = [stats.ttest_rel([end(run) for run in arms[name]], base) for name in (BLOCK, FULL)]
    low, high = sorted(float(test.pvalue) for test in tests)
    for row, name, test in zip(rows(arms, "verdict"), (BLOCK, FULL), tests, strict=True):
        differences = [end(run) - loss for run, loss in zip(arms[name], base, strict=True)]
        limits = test.confidence_interval(0.95)
        assert (row["arm"], row["pairs"]) == (name, 5)
        assert row["delta_nats"] == pytest.approx(fmean(differences), abs=1e-14)
        assert (row["low_nats"], row["high_nats"]) == pytest.approx((limits.low, limits.high), abs=1e-12)
        assert row["p"] == pytest.approx(test.pvalue, rel=1e-9)
        assert row["p_holm"] == pytest.approx(2 * low if row["p"] < 0.5 else max(2 * low, high), rel=1e-9)
        shift = row["smallest_detectable_nats"] * math.sqrt(5) / stdev(differences)
        critical = stats.t.ppf(1 - 0.025 / 2, 4)
        assert stats.nct.sf(critical, 4, shift) + stats.nct.cdf(-critical, 4, shift) == pytest.approx(0.8, abs=1e-6)
    assert [row["outcome"] for row in rows(arms, "verdict")] == ["better", "not shown"]


def test_equal_budgets(arms: dict[str, list[RunDirectory]]) -> None:
    """Both arms lead and are dearer: they are read at their last evaluation within the baseline's budget."""
    cost = {
        (BLOCK, "FLOPs"): 1.02,
        (FULL, "FLOPs"): 1.05,
        (BLOCK, "seconds"): 1.3 * 1.03,
        (FULL, "seconds"): 1.6 * 1.03,
    }
    table = rows(arms, "equal_budgets")
    assert [(row["arm"], row["equal"]) for row in table] == [
        (name, budget) for name in (BLOCK, FULL) for budget in ("tokens", "FLOPs", "seconds")
    ]
    for row in table:
        dearest = cost.get((row["arm"], row["equal"]), 1.0)
        differences = []
        for run, base in zip(arms[row["arm"]], arms[BASE], strict=True):
            within = [each for each in raw(run) if each["kind"] == "eval" and each["tokens"] * dearest <= 204800]
            assert row["read_at_tokens"] == within[-1]["tokens"]
            differences.append(within[-1]["loss"] - end(base))
        assert row["delta_nats"] == pytest.approx(fmean(differences), abs=1e-14)
        limits = stats.ttest_1samp(differences, 0.0).confidence_interval(0.95)
        assert (row["low_nats"], row["high_nats"]) == pytest.approx((limits.low, limits.high), abs=1e-12)


def test_magnitudes_are_means_over_the_runs(arms: dict[str, list[RunDirectory]]) -> None:
    for row, runs in zip(rows(arms, "magnitudes"), arms.values(), strict=True):
        stream = elementwise([each["stream_rms"][1:] for each in summaries(runs, "magnitudes")])
        assert (row["first_block_rms"], row["middle_block_rms"], row["last_block_rms"]) == pytest.approx(
            (stream[0], stream[2], stream[4]), abs=1e-14
        )
        assert row["growth"] == pytest.approx(stream[4] / stream[0], abs=1e-13)
        assert row["largest_rms"] == pytest.approx(max(stream), abs=1e-14)
        assert row["largest_at_block"] == stream.index(max(stream)) + 1
        for key, name in (("parameter", "parameter_grad_norm"), ("activation", "activation_grad_norm")):
            norms = elementwise([each[name] for each in summaries(runs, "gradients")])
            assert row[f"{key}_gradient_ratio"] == pytest.approx(max(norms) / min(norms), abs=1e-12)


def test_depth_weights_are_means_over_the_runs(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path, 3), *block(tmp_path, [0.1, 0.1, 0.1])]
    for number, run in enumerate(runs[3:]):
        [sites] = summaries([run], "depth_weights")
        for site in sites["sites"]:
            site["embedding_share"] += 0.01 * number
            site["entropy"] += 0.02 * number
            site["maximum"] += 0.03 * number
            site["recent_share"] += 0.04 * number
        run.append_observation({"observer": "depth_weights", "step": 100, "summary": sites})
    table = [row for row in as_json(comparison(runs))["tables"]["depth_weights"]["rows"] if row["run"] == BLOCK]
    lines = [raw(run, "probes/observations.jsonl")[-1]["summary"]["sites"] for run in runs[3:]]
    for row, kind in zip(table, ("attention", "feed_forward", "output"), strict=True):
        sites = [[site for site in each if site["kind"] == kind and len(site["mean"]) > 1] for each in lines]
        assert row["count"] == len(sites[0])
        for column, key in (("embedding_share", "embedding_share"), ("recent_share", "recent_share"),
                            ("entropy_nats", "entropy")):  # fmt: skip
            assert row[column] == pytest.approx(fmean(site[key] for each in sites for site in each), abs=1e-13)
        ratios = [site["entropy"] / math.log(len(site["mean"])) for each in sites for site in each]
        assert row["entropy_of_uniform"] == pytest.approx(fmean(ratios), abs=1e-13)
        largest = max(fmean(site["maximum"] for site in same) for same in zip(*sites, strict=True))
        assert row["largest"] == pytest.approx(largest, abs=1e-13)


def test_a_mean_over_some_of_the_runs_says_so(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path, 3), *block(tmp_path, [0.1, 0.1], seeds=[0, 1])]
    runs += block(tmp_path, [0.1], seeds=[2], observed=False)
    tables = as_json(comparison(runs))["tables"]
    for table in ("magnitudes", "depth_weights"):
        assert f"{BLOCK}: mean over 2 of 3 runs" in tables[table]["notes"]
        assert tables[table]["caption"].startswith("mean over the runs of an arm; ")


def test_cost(arms: dict[str, list[RunDirectory]]) -> None:
    timed = bench_result(["x", "y", "z"], slower=1.3)["arms"]
    for row, arm in zip(rows(arms, "cost"), timed, strict=True):
        seconds = median(arm["wall_seconds"])
        assert row["step_seconds"] == seconds
        assert row["tokens_per_second"] == 2048 / seconds
        assert row["peak_memory_bytes"] == arm["resident_bytes"] + arm["step_peak_bytes"]
        if arm is not timed[0]:
            pairs = zip(arm["wall_seconds"], timed[0]["wall_seconds"], strict=True)
            assert row["step_ratio"] == pytest.approx(median(ours / base for ours, base in pairs), abs=1e-12)
    notes = as_json(comparison(everyone(arms)))["tables"]["cost"]["notes"]
    [clocks] = [note for note in notes if note.startswith("clocks of the separate trainings")]
    for name, runs in arms.items():
        last = [[row for row in raw(run) if row["kind"] == "train"][-1] for run in runs]
        rate = sum(row["tokens"] for row in last) / sum(row["train_seconds"] for row in last)
        assert f"{name} {rate:,.0f} tokens/s" in clocks


def test_curves_are_means_over_the_runs(arms: dict[str, list[RunDirectory]]) -> None:
    curves = as_json(comparison(everyone(arms)))["curves"]
    assert curves["loss"] == "validation"
    for name, runs in arms.items():
        evaluated = [[row for row in raw(run) if row["kind"] == "eval"] for run in runs]
        assert curves["runs"][name]["tokens"] == [row["tokens"] for row in evaluated[0]]
        means = [fmean(row["loss"] for row in same) for same in zip(*evaluated, strict=True)]
        assert curves["runs"][name]["loss_nats"] == pytest.approx(means, abs=1e-14)


# ------------------------------------------------------------------ what is named


def test_json_has_every_run_every_pair_and_every_figure(arms: dict[str, list[RunDirectory]]) -> None:
    document = as_json(comparison(everyone(arms)))
    assert (document["schema"], document["baseline"], document["paired_by_seed"]) == ("attnres.compare/1", BASE, True)
    assert [arm["label"] for arm in document["arms"]] == [BASE, BLOCK, FULL]
    assert [(run["arm"], run["seed"]) for run in document["runs"]] == [
        (name, seed) for name in (BASE, BLOCK, FULL) for seed in range(5)
    ]
    verdict = document["verdicts"][0]
    assert (verdict["arm"], verdict["kind"], verdict["outcome"]) == (BLOCK, "shown", "better")
    assert verdict["seeds"] == [0, 1, 2, 3, 4]
    wanted = [end(ours) - end(theirs) for ours, theirs in zip(arms[BLOCK], arms[BASE], strict=True)]
    assert verdict["difference"]["differences"] == wanted
    assert [each["budget"] for each in verdict["at_equal"]] == ["FLOPs", "seconds"]
    assert verdict["survives"] == {"FLOPs": False, "seconds": False}
    assert document["bench"]["arms"][0]["wall_seconds"]


def test_configuration_shows_the_arms_and_not_the_seeds(arms: dict[str, list[RunDirectory]]) -> None:
    found = {row["key"]: row for row in rows(arms, "configuration")}
    assert set(found) == {"residual.scheme", "residual.num_blocks"}
    assert [found["residual.num_blocks"][name] for name in (BASE, BLOCK, FULL)] == [None, 2, None]


def test_configuration_lists_several_values_inside_an_arm(tmp_path: Path) -> None:
    runs = [
        *baseline(tmp_path, 2),
        *block(tmp_path, [0.1]),
        *block(tmp_path, [0.1], seeds=[1], change={"train.threads": 7}),
    ]
    table = as_json(comparison(runs))["tables"]["configuration"]["rows"]
    [threads] = [row for row in table if row["key"] == "train.threads"]
    assert (threads[BASE], threads[BLOCK], threads["meaning"]) == (0, "0, 7", "timing only")


def test_runs_that_are_in_no_pair_are_named_with_the_reason(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path, 4), *block(tmp_path, [0.1] * 3)]
    runs += fabricate_arm(tmp_path, "odd", better_by=[0.0], change={"train.horizon_tokens": 102400})
    runs.append(fabricate(tmp_path, "broken", residual=BLOCK_SCHEME))
    runs[-1].manifest_path.write_text("{")
    document = as_json(comparison(runs))
    notes = " | ".join(document["tables"]["runs"]["notes"])
    assert "set aside: odd-s0: another train.horizon_tokens (102400, not 204800)" in notes
    assert "set aside: broken: it cannot be read" in notes
    assert f"without a partner: {BASE}-s3: {BLOCK} has no run with seed 3" in notes
    assert "broken: The manifest of run 'broken' cannot be read" in notes
    by_name = {run["name"]: run for run in document["runs"]}
    assert by_name["broken"]["set_aside"] == "it cannot be read"
    assert by_name[f"{BASE}-s3"]["without_partner"] == [f"{BLOCK} has no run with seed 3"]
    assert document["verdicts"][0]["outcome"] == "better", "the others are compared"


@pytest.mark.parametrize("name", ["manifest.json", "resolved.toml", "state.json", "metrics.jsonl", "probes"])
def test_a_broken_run_never_stops_the_comparison_of_the_others(tmp_path: Path, name: str) -> None:
    runs = [*baseline(tmp_path), *block(tmp_path)]
    path = runs[6].path / name
    if name == "probes":
        (path / "observations.jsonl").write_text("{\n[]\n3\n")
    else:
        path.write_bytes(b"\xff{")
    document = as_json(comparison(runs))
    [broken] = [run for run in document["runs"] if run["name"] == f"{BLOCK}-s1"]
    assert broken["problems"]
    verdict = document["verdicts"][0]
    seeds = [0, 1, 2, 3, 4] if name == "probes" else [0, 2, 3, 4]
    assert (verdict["outcome"], verdict["seeds"]) == ("better", seeds)
    wanted = [end(runs[5 + seed]) - end(runs[seed]) for seed in seeds]
    assert verdict["difference"]["differences"] == wanted
    assert any(f"{BLOCK}-s1" in note for note in document["tables"]["runs"]["notes"])


def test_rates_are_said(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path, 3), *block(tmp_path, [0.1] * 3)]
    assert any(
        note.startswith("rates: common (0.003)") for note in as_json(comparison(runs))["tables"]["verdict"]["notes"]
    )
    runs = [*baseline(tmp_path / "x", 3), *block(tmp_path / "x", [0.1] * 3, change={"train.learning_rate": 0.001})]
    assert f"rates: {BASE} 0.003; {BLOCK} 0.001" in as_json(comparison(runs))["tables"]["verdict"]["notes"]


def test_many_arms_of_which_nothing_is_shown_share_a_sentence(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path, 3), *block(tmp_path, [0.05, 0.06, 0.055])]
    for number in range(6):
        better_by = [0.01 * ((number + seed) % 3 - 1) for seed in range(3)]
        runs += fabricate_arm(tmp_path, f"x{number}", residual={"scheme": f"x{number}"}, better_by=better_by)
    text = re.sub(r"\s+", " ", render(compare_document(comparison(runs, slower=None)), "table", width_columns=80))
    assert f"~ no difference from {BASE} is shown for x0, x1, x2, x3, x4, x5; see below." in text
    assert f"{BLOCK}: shown to be better" in text


def test_seeds_in_words() -> None:
    assert seeds_in_words([3, 0, 1, 2, 7, 8, 10]) == "0 to 3, 7, 8, 10"
