"""Every number of every table, recomputed here from the files of the runs by other code than the tables'."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest
from rich.cells import cell_len

from attnres_cli.report.compare import compare_document, comparison_tables
from attnres_cli.report.compared_run import read_runs
from attnres_cli.report.comparison import Comparison, SideBySide
from attnres_cli.report.document import Document, render
from attnres_cli.runs.directory import RunDirectory
from tests.fabricated_runs import BLOCK_SCHEME, bench_result, fabricate
from tests.golden_files import check_golden

BENCH_ARMS = {"A": "x", "B": "y", "C": "y"}


@pytest.fixture
def runs(tmp_path: Path) -> list[RunDirectory]:
    """A baseline, a block run that is better and dearer, and a third one that was interrupted."""
    return [
        fabricate(tmp_path, "cpu-tiny-prenorm-s0-20260102-030405-ab12"),
        fabricate(tmp_path, "cpu-tiny-attnres-block-s0-20260102-030405-cd34", residual=BLOCK_SCHEME, better_by=0.0513,
                  flops_per_token=1.02e6),
        fabricate(tmp_path, "[bold] <script>", residual=BLOCK_SCHEME, better_by=0.1, until_step=50,
                  status="interrupted", change={"train.learning_rate": 0.001}),
    ]  # fmt: skip


def comparison(runs: list[RunDirectory], *, baseline: int = 0, bench: bool = True) -> Comparison:
    side_by_side = SideBySide(bench_result(["x", "y"]), BENCH_ARMS) if bench else None
    return Comparison.of_runs(read_runs(runs), baseline, side_by_side, None if bench else "--no-bench")


def as_json(found: Comparison) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(render(compare_document(found), "json"))
    return document


def rows(found: Comparison, table: str) -> list[dict[str, Any]]:
    return list(as_json(found)["tables"][table]["rows"])


def raw(run: RunDirectory, name: str) -> list[dict[str, Any]]:
    """The lines of a JSONL file, read without the program."""
    return [json.loads(line) for line in (run.path / name).read_text().splitlines()]


def raw_evaluations(run: RunDirectory) -> dict[int, dict[str, Any]]:
    """{training tokens: row}"""
    return {row["tokens"]: row for row in raw(run, "metrics.jsonl") if row["kind"] == "eval"}


def summary(run: RunDirectory, observer: str) -> dict[str, Any] | None:
    lines = (run.path / "probes" / "observations.jsonl").read_text().splitlines()
    return next((row["summary"] for row in map(json.loads, lines) if row["observer"] == observer), None)


# ------------------------------------------------------------------ loss


@pytest.mark.parametrize("baseline", [0, 1])
def test_losses(runs: list[RunDirectory], baseline: int) -> None:
    evaluated = [raw_evaluations(run) for run in runs]
    last = [found[max(found)] for found in evaluated]
    equal_tokens = max(set(evaluated[0]) & set(evaluated[1]) & set(evaluated[2]))
    assert equal_tokens == 40 * 2048  # the interrupted run was last evaluated at step 40
    equal = [found[equal_tokens] for found in evaluated]
    table = rows(comparison(runs, baseline=baseline), "loss")
    for index, row in enumerate(table):
        assert row["loss_nats"] == last[index]["loss"]
        assert row["perplexity"] == last[index]["perplexity"]
        assert math.isclose(row["perplexity"], math.exp(row["loss_nats"]))
        assert row["bits_per_byte"] == last[index]["bits_per_byte"]
        assert row["equal_tokens_loss_nats"] == equal[index]["loss"]
        expected = None if index == baseline else equal[index]["loss"] - equal[baseline]["loss"]
        assert row["equal_tokens_loss_delta_nats"] == expected
    other = 1 - baseline
    assert table[other]["loss_delta_nats"] == last[other]["loss"] - last[baseline]["loss"]
    assert table[2]["loss_delta_nats"] is None, "an interrupted run's last step is not the baseline's"


def test_an_absent_metric_is_an_em_dash_in_whichever_run_it_is_absent(tmp_path: Path) -> None:
    runs = [fabricate(tmp_path, "a", bits_per_byte=False), fabricate(tmp_path, "b", better_by=0.1)]
    for order in (runs, runs[::-1]):
        table = compare_document(comparison(order, bench=False)).tables["loss"]
        column = [column.key for column in table.columns].index("bits_per_byte")
        shown = {row[column] for row in table.shown().rows}
        assert "—" in shown
        assert len(shown) == 2, "the other run's figure is still there"


def test_what_failed_is_marked_as_failed(tmp_path: Path) -> None:
    diverged = fabricate(tmp_path, "b", until_step=0, status="diverged", error="the loss is not finite")
    diverged.metrics_path.write_text("")
    found = comparison([fabricate(tmp_path, "a"), diverged], bench=False)
    row = rows(found, "loss")[1]
    assert row["loss_nats"] is None
    assert {"loss_nats", "equal_tokens_loss_nats", "perplexity"} <= set(row["failed"])
    text = render(compare_document(found), "table")
    assert "B: diverged at step 0 of 100" in text
    assert "B: the loss is not finite" in text


# ------------------------------------------------------------------ inside


def test_magnitudes(runs: list[RunDirectory]) -> None:
    for run, row in zip(runs[:2], rows(comparison(runs), "magnitudes"), strict=False):
        magnitudes, gradients = summary(run, "magnitudes"), summary(run, "gradients")
        assert magnitudes is not None
        assert gradients is not None
        after_blocks = magnitudes["stream_rms"][1:]
        assert (row["first_block_rms"], row["middle_block_rms"], row["last_block_rms"]) == (
            after_blocks[0], after_blocks[2], after_blocks[4],
        )  # fmt: skip
        assert row["growth"] == after_blocks[4] / after_blocks[0]
        assert row["largest_rms"] == max(after_blocks)
        assert row["largest_at_block"] == after_blocks.index(max(after_blocks)) + 1
        for key, name in (("parameter", "parameter_grad_norm"), ("activation", "activation_grad_norm")):
            assert row[f"{key}_gradient_ratio"] == max(gradients[name]) / min(gradients[name])
    assert rows(comparison(runs), "magnitudes")[2]["growth"] is None  # nothing was observed before the interruption


def test_a_block_without_a_gradient_has_no_ratio(tmp_path: Path) -> None:
    run = fabricate(tmp_path, "a", observed=False)
    run.append_observation({"observer": "gradients", "step": 100, "summary": {"parameter_grad_norm": [0.5, 0.0]}})
    table = rows(comparison([run, fabricate(tmp_path, "b")], bench=False), "magnitudes")
    assert table[0]["parameter_gradient_ratio"] is None
    assert table[1]["parameter_gradient_ratio"] == 5.0


def test_depth_weights(runs: list[RunDirectory]) -> None:
    table = rows(comparison(runs), "depth_weights")
    assert [(row["run"], row["sites"]) for row in table] == [
        ("A prenorm", None),
        ("B attnres-block", "attention"),
        ("B attnres-block", "feed-forward"),
        ("B attnres-block", "output"),
        ("C attnres-block", None),
    ]
    recorded = summary(runs[1], "depth_weights")
    assert recorded is not None
    for row, kind in zip(table[1:4], ("attention", "feed_forward", "output"), strict=True):
        sites = [site for site in recorded["sites"] if site["kind"] == kind and len(site["mean"]) > 1]
        assert row["count"] == len(sites)
        assert math.isclose(row["embedding_share"], fmean(site["mean"][0] for site in sites))
        assert math.isclose(row["recent_share"], fmean(site["mean"][-1] for site in sites))
        entropies = [-sum(share * math.log(share) for share in site["mean"]) for site in sites]
        assert math.isclose(row["entropy_nats"], fmean(entropies))
        uniform = [entropy / math.log(len(site["mean"])) for entropy, site in zip(entropies, sites, strict=True)]
        assert math.isclose(row["entropy_of_uniform"], fmean(uniform))
        assert row["largest"] == max(max(site["mean"]) for site in sites)


def test_tables_about_what_nobody_recorded_are_left_out(tmp_path: Path) -> None:
    runs = [fabricate(tmp_path, name, observed=False) for name in "ab"]
    assert not {"magnitudes", "depth_weights"} & set(as_json(comparison(runs))["tables"])


# ------------------------------------------------------------------ cost


@pytest.mark.parametrize("baseline", [0, 1])
def test_cost(runs: list[RunDirectory], baseline: int) -> None:
    # The bench's first arm is always the baseline of the comparison.
    names = {"A": "x", "B": "y"} if baseline == 0 else {"A": "y", "B": "x"}
    result = bench_result(["x", "y"])
    found = Comparison.of_runs(read_runs(runs[:2]), baseline, SideBySide(result, names))
    timed = {arm["name"]: arm for arm in result["arms"]}
    memory = {name: arm["resident_bytes"] + arm["step_peak_bytes"] for name, arm in timed.items()}
    for index, row in enumerate(rows(found, "cost")):
        name = names["AB"[index]]
        seconds = median(timed[name]["wall_seconds"])
        assert row["step_seconds"] == seconds
        assert row["tokens_per_second"] == 2048 / seconds
        assert row["peak_memory_bytes"] == memory[name]
        if index != baseline:
            ratio = median(
                ours / base for ours, base in zip(timed["y"]["wall_seconds"], timed["x"]["wall_seconds"], strict=True)
            )
            assert math.isclose(row["step_ratio"], ratio)
            assert math.isclose(row["tokens_per_second_ratio"], 1 / ratio)
            assert row["peak_memory_ratio"] == memory["y"] / memory["x"]
        else:
            assert row["step_ratio"] is None


def test_a_time_difference_that_is_not_shown_is_a_tilde(runs: list[RunDirectory]) -> None:
    side_by_side = SideBySide(bench_result(["x", "y"], slower=1.01), BENCH_ARMS)
    found = Comparison.of_runs(read_runs(runs[:2]), 0, side_by_side)
    shown = compare_document(found).tables["cost"].shown().rows[1]
    assert shown[2] == shown[4] == "~"
    assert rows(found, "cost")[1]["step_ratio"] == 1.01, "a program gets the number with its interval"
    assert as_json(found)["bench"]["arms"][1]["derived"]["wall_ratio"]["low"] < 1


def test_clocks_of_the_trainings_are_a_remark_and_the_file_s_own_numbers(runs: list[RunDirectory]) -> None:
    notes = as_json(comparison(runs, bench=False))["tables"]["cost"]["notes"]
    [clocks] = [note for note in notes if note.startswith("clocks of the separate trainings")]
    for label, run in zip("ABC", runs, strict=True):
        last = [row for row in raw(run, "metrics.jsonl") if row["kind"] == "train"][-1]
        assert f"{label} {last['tokens'] / last['train_seconds']:,.0f} tokens/s" in clocks


def test_without_a_bench_there_is_no_cost_figure_and_the_reason_is_given(runs: list[RunDirectory]) -> None:
    document = compare_document(comparison(runs, bench=False))
    assert document.tables["cost"].caption == "not measured: --no-bench"
    figures = {"tokens_per_second", "step_seconds", "step_ratio", "peak_memory_bytes", "peak_memory_ratio"}
    for row in rows(comparison(runs, bench=False), "cost"):
        assert {row[key] for key in figures} == {None}


# ------------------------------------------------------------------ configuration, curves, payload


def test_the_configuration_lists_differences_only_and_first(runs: list[RunDirectory]) -> None:
    document = compare_document(comparison(runs))
    assert list(document.tables)[:2] == ["runs", "configuration"]
    found = {row["key"]: row for row in rows(comparison(runs), "configuration")}
    assert set(found) == {
        "residual.scheme", "residual.num_blocks", "train.learning_rate",
    }  # fmt: skip
    assert found["residual.scheme"] == {
        "key": "residual.scheme", "meaning": "compared", "A": "prenorm", "B": "attnres-block", "C": "attnres-block",
    }  # fmt: skip
    assert found["train.learning_rate"]["C"] == 0.001
    remarks = document.tables["configuration"].remarks
    assert remarks == ("1 key that only some schemes have is at its default (--json names them)",)
    assert "residual.query_lr_factor" in {each["key"] for each in document.payload["differences"]}


def test_what_forbids_a_verdict_stands_above_what_does_not(tmp_path: Path) -> None:
    change = {"train.threads": 1, "train.learning_rate": 0.001, "train.seed": 4, "model.d_model": 96}
    runs = [fabricate(tmp_path, "a"), fabricate(tmp_path, "b", residual=BLOCK_SCHEME, change=change)]
    order = [row["meaning"] for row in rows(comparison(runs, bench=False), "configuration")]
    ranks = {"compared": 0, "UNFAIR: shape": 1, "UNFAIR": 1, "if tuned": 2, "timing only": 3}
    assert [ranks[meaning] for meaning in order] == sorted(ranks[meaning] for meaning in order)


def test_curves_in_json_are_complete(runs: list[RunDirectory]) -> None:
    curves = as_json(comparison(runs))["curves"]
    assert curves["loss"] == "validation"
    for label, run in zip("ABC", runs, strict=True):
        evaluated = raw_evaluations(run)
        assert curves["runs"][label]["tokens"] == sorted(evaluated)
        assert curves["runs"][label]["loss_nats"] == [evaluated[tokens]["loss"] for tokens in sorted(evaluated)]


def test_the_training_loss_is_drawn_where_validation_is_too_sparse(tmp_path: Path) -> None:
    runs = [fabricate(tmp_path, name, change={"eval.every_steps": 0}) for name in "ab"]
    curves = as_json(comparison(runs))["curves"]
    assert curves["loss"] == "training"
    assert len(curves["runs"]["A"]["tokens"]) == 11


def test_json_names_runs_verdicts_and_differences(runs: list[RunDirectory]) -> None:
    document = as_json(comparison(runs))
    assert document["schema"] == "attnres.compare/1"
    assert document["baseline"] == "A"
    assert [run["name"] for run in document["runs"]] == [run.name for run in runs]
    assert [(verdict["label"], verdict["outcome"]) for verdict in document["verdicts"]] == [
        ("B", "lower"),
        ("C", "refused"),
    ]
    assert {
        "key": "train.learning_rate",
        "rule": "may differ if tuned",
        "values": {"A": 0.003, "B": 0.003, "C": 0.001},
    } in (document["differences"])


def test_many_runs_are_all_there(tmp_path: Path) -> None:
    runs = [fabricate(tmp_path, f"run-{number:02}", better_by=number / 100, steps=20) for number in range(28)]
    found = comparison(runs, bench=False)
    text = render(compare_document(found), "table", width_columns=80)
    assert "the first 26 of 28 runs are drawn" in text
    assert all(run.name in text for run in runs)
    assert max(map(cell_len, text.splitlines())) <= 80
    assert len(as_json(found)["curves"]["runs"]) == 28


@pytest.mark.parametrize("name", ["manifest.json", "resolved.toml", "state.json", "metrics.jsonl", "probes"])
def test_a_broken_run_never_stops_the_comparison_of_the_others(runs: list[RunDirectory], name: str) -> None:
    whole = as_json(comparison(runs[:2]))
    path = runs[2].path / name
    if name == "probes":
        (path / "observations.jsonl").write_text("{\n[]\n3\n")
    else:
        path.write_bytes(b"\xff{")
    broken = as_json(comparison(runs))
    assert broken["runs"][2]["problems"]
    for table in ("loss", "cost"):
        for old, new in zip(whole["tables"][table]["rows"], broken["tables"][table]["rows"], strict=False):
            for key, value in old.items():
                assert key.startswith("equal_tokens") or new[key] == value, "the third run changes nothing else"
    assert broken["verdicts"][0]["outcome"] == "lower"
    assert broken["verdicts"][1]["outcome"] == "refused"


# ------------------------------------------------------------------ how it looks


def test_every_table_of_a_comparison_fits_80_columns_in_one_piece(runs: list[RunDirectory]) -> None:
    for table in compare_document(comparison(runs[:2])).tables.values():
        lines = render(Document("x", (table,)), "table", width_columns=80).splitlines()
        assert max(map(cell_len, lines)) <= 80
        rules = [line for line in lines if set(line.strip()) == {"─"}]
        assert len(rules) == 1, f"{table.key} continues below itself"


def test_every_discovered_table_says_where_it_stands() -> None:
    orders = [module.COMPARISON_ORDER for module in comparison_tables()]
    assert orders == sorted(set(orders))
    assert len(orders) >= 5


@pytest.mark.parametrize(
    ("name", "format_name", "width"),
    [("compare.txt", "table", 80), ("compare-in-a-pipe.txt", "table", None), ("compare.md", "markdown", None),
     ("compare.csv", "csv", None)],
)  # fmt: skip
def test_a_fair_pair(runs: list[RunDirectory], name: str, format_name: str, width: int | None) -> None:
    check_golden(name, render(compare_document(comparison(runs[:2])), format_name, width_columns=width))


def test_three_runs_of_which_one_was_interrupted(runs: list[RunDirectory]) -> None:
    check_golden("compare-three.txt", render(compare_document(comparison(runs)), "table", width_columns=80))


def test_an_unfair_pair(tmp_path: Path) -> None:
    change = {"train.tokens_per_step": 4096, "train.seed": 1, "model.norm_epsilon": 1e-6}
    runs = [fabricate(tmp_path, "one"), fabricate(tmp_path, "two", residual=BLOCK_SCHEME, change=change)]
    found = comparison(runs, bench=False)
    check_golden("compare-unfair.txt", render(compare_document(found), "table", width_columns=80))
