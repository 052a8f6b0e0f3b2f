"""A run as a comparison sees it: what is broken is said, and never stops the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnres_cli.report.compared_run import letter, read_run, read_runs
from tests.fabricated_runs import BLOCK_SCHEME, fabricate, loss_at


def test_letters() -> None:
    assert [letter(index) for index in (0, 1, 25, 26, 27, 51, 52, 701, 702)] == [
        "A", "B", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA",
    ]  # fmt: skip


def test_a_finished_run_has_no_problems(tmp_path: Path) -> None:
    seen = read_run(fabricate(tmp_path, "a", residual=BLOCK_SCHEME), "A")
    assert seen.problems == ()
    assert seen.title == "A attnres-block"
    assert (seen.is_finished, seen.is_broken) == (True, False)
    assert (seen.step, seen.steps, seen.horizon_tokens) == (100, 100, 204800)
    assert (seen.last_evaluation or {})["loss"] == loss_at(100, 0.0)
    assert set(seen.observations) == {"magnitudes", "gradients", "depth_weights"}
    assert seen.where_it_stands() == "finished"


def test_an_interrupted_run_says_how_far_it_got(tmp_path: Path) -> None:
    seen = read_run(fabricate(tmp_path, "a", until_step=40, status="interrupted"), "A")
    assert seen.where_it_stands() == "interrupted at step 40 of 100"
    assert not seen.is_broken


def test_a_run_that_goes_on_counts_its_logged_steps(tmp_path: Path) -> None:
    run = fabricate(tmp_path, "a", until_step=40, status="running")
    run.append_metric({"kind": "train", "step": 50, "loss": 2.0})
    assert read_run(run, "A").where_it_stands() == "running at step 50 of 100"


def test_a_diverged_run_is_broken_and_says_why(tmp_path: Path) -> None:
    seen = read_run(fabricate(tmp_path, "a", until_step=0, status="diverged", error="the loss is not finite"), "A")
    assert seen.is_broken
    assert "the loss is not finite" in seen.problems
    assert seen.cell(None).failed
    assert not seen.cell(1.0).failed


@pytest.mark.parametrize("name", ["manifest.json", "resolved.toml", "state.json", "metrics.jsonl"])
@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "folder"])
def test_any_broken_file_is_a_sentence_and_no_error(tmp_path: Path, name: str, damage: str) -> None:
    run = fabricate(tmp_path, "a")
    path = run.path / name
    path.unlink()
    if damage == "empty":
        path.write_bytes(b"")
    if damage == "garbage":
        path.write_bytes(b"\xff{]\n\x00")
    if damage == "folder":
        path.mkdir()
    seen = read_runs([run, fabricate(tmp_path, "b")])
    if (name, damage) != ("resolved.toml", "empty"):  # an empty TOML file is valid; it holds nothing
        assert seen[0].problems
    assert seen[1].problems == ()
    assert seen[0].title.startswith("A ")


@pytest.mark.parametrize(
    "manifest", ["{}", '{"data": 3, "model": [], "steps": "many", "tokens": null, "flops": "x", "environment": 1}']
)
def test_a_manifest_of_the_wrong_shape_says_nothing_and_breaks_nothing(tmp_path: Path, manifest: str) -> None:
    run = fabricate(tmp_path, "a")
    run.manifest_path.write_text(manifest)
    seen = read_run(run, "A")
    assert seen.horizon_tokens is None
    assert seen.facts["manifest.data.data_hash"] is None


def test_torn_lines_are_counted_and_the_latest_observation_holds(tmp_path: Path) -> None:
    run = fabricate(tmp_path, "a")
    run.append_observation({"observer": "magnitudes", "step": 50, "summary": {"stream_rms": [9.0]}})
    with run.metrics_path.open("a") as handle:
        handle.write('{"kind": "ev')
    seen = read_run(run, "A")
    assert seen.problems == ("metrics.jsonl: 1 torn line left out",)
    assert seen.observations["magnitudes"]["step"] == 100


@pytest.mark.parametrize("summary", [None, 3, [], {"stream_rms": "x"}, {"stream_rms": [1.0, None, "x"]}])
def test_an_observation_of_the_wrong_shape_has_no_numbers(tmp_path: Path, summary: object) -> None:
    run = fabricate(tmp_path, "a", observed=False)
    run.append_observation({"observer": "magnitudes", "step": 100, "summary": summary})
    numbers = read_run(run, "A").observation("magnitudes", "stream_rms")["stream_rms"]
    assert numbers in ([], [1.0, None, None])


@pytest.mark.parametrize("loss", ["NaN", "1e308", "-1e200", "null", '"low"', "true"])
def test_a_last_loss_that_no_statistics_can_be_made_of_is_none(tmp_path: Path, loss: str) -> None:
    run = fabricate(tmp_path, "a")
    with run.metrics_path.open("a") as handle:
        handle.write(f'{{"kind": "eval", "step": 100, "tokens": 204800, "loss": {loss}}}\n')
    assert read_run(run, "A").end_loss is None
