"""`attnres tune` through the program's entry point, with trainings of a fraction of a second."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.preset.reading import load_preset
from attnres_cli.runs.lookup import find_run
from attnres_cli.sweep.results import SweepDirectory
from attnres_cli.sweep.tuned_overlays import Mark, overlay_path, read_mark
from tests.small import small_preset

TUNE = ["--residual", "prenorm", "--residual", "attnres-full", "--jobs", "1", "--name", "t", "--points", "3"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder_with_presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    size: dict[str, Any] = {"train.horizon_tokens": 64 * 6, "observe.observers": ["magnitudes"], "eval.every_steps": 0}
    Path("small.toml").write_text(small_preset(**size).to_toml())
    hot = small_preset(**{**size, "train.learning_rate": 1e30, "train.grad_clip": 0.0})
    Path("hot.toml").write_text(hot.to_toml())


def printed_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def tuned(document: dict[str, Any], arm: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in document["tuned"] if each["arm"] == arm)
    return found


def by_rate(document: dict[str, Any], arm: str) -> dict[float, float]:
    return {row["changes"]["train.learning_rate"]: row["loss"] for row in document["runs"] if row["arm"] == arm}


def test_a_dry_run_prices_every_stage_and_trains_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", "./small.toml", *TUNE, "--horizon-fraction", "0.5", "--weight-decay", "--query-lr-factor"]
    assert run([*words, "--seeds", "2", "--dry-run", "--json"]) == 0
    plan = printed_json(capsys)
    trials = 3 + 2 + 2 + 2 + 3
    assert plan["price"]["runs"] == 2 * 2 * trials
    assert plan["price"]["tokens"] == 2 * 2 * ((trials - 3) * 192 + 3 * 384)
    assert plan["price"]["minutes"] > 0
    assert {row["seed"] for row in plan["runs"]} == {1000, 1001}
    for row in plan["tables"]["plan"]["rows"]:
        assert row["trials"] == trials
    assert not Path("runs").exists()
    assert not Path("presets").exists()


def test_every_arm_is_searched_coarse_to_fine_and_the_best_is_the_lowest(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["tune", "./small.toml", *TUNE, "--json"])
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    base = load_preset("./small.toml").train.learning_rate
    for arm in ("prenorm", "attnres-full"):
        losses = by_rate(document, arm)
        assert len(losses) == 5
        for rate, loss in losses.items():  # every number is that of a run
            folder = next(row["folder"] for row in document["runs"]
                          if row["arm"] == arm and row["changes"]["train.learning_rate"] == rate)  # fmt: skip
            record = find_run(f"t/{folder}", Path("runs"))
            assert record.evaluations()[-1]["loss"] == loss
            assert (record.manifest()["seed"], record.resolved()["train"]["learning_rate"]) == (1000, rate)
        coarse = {factor: losses[float(f"{base * factor:.4g}")] for factor in (0.5, 1, 2)}
        winner = min(coarse, key=lambda factor: coarse[factor])
        fine = {float(f"{base * winner * factor:.4g}") for factor in (2**-0.5, 2**0.5)}
        assert losses.keys() == fine | {float(f"{base * factor:.4g}") for factor in coarse}
        facts = tuned(document, arm)
        assert (facts["best"]["learning_rate"], facts["loss"]) == min(losses.items(), key=lambda item: item[1])
        assert facts["common_loss"] == losses[base]
        at_edge = facts["best"]["learning_rate"] in (min(losses), max(losses))
        assert facts["is_tuned"] is not at_edge
        assert overlay_path("small", arm).exists() is not at_edge
    assert code == (0 if all(each["is_tuned"] for each in document["tuned"]) else 6)


def test_an_optimum_at_the_edge_is_not_tuned_and_widening_trains_only_what_is_new(
    capsys: pytest.CaptureFixture[str],
) -> None:
    low = ["--set", "train.learning_rate=1e-6"]  # six steps of this hardly move: higher is better throughout
    assert run(["tune", "./small.toml", *TUNE, *low]) == 6
    said = capsys.readouterr().out
    assert "prenorm: not tuned: its lowest loss is at the highest learning rate tried, 2.828e-06" in said
    assert "--name t --points 5" in said
    assert not Path("presets").exists()
    stamps = {path: path.stat().st_mtime_ns for path in Path("runs/t").glob("*/metrics.jsonl")}
    assert run(["tune", "./small.toml", *TUNE, *low, "--points", "5", "--json"]) == 6
    wider = by_rate(printed_json(capsys), "prenorm")
    assert max(wider) == pytest.approx(1e-6 * 4 * 2**0.5, rel=1e-3)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


def test_a_diverged_trial_is_a_side_that_was_tried_and_the_overlay_says_all_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rates = ["--set", "train.learning_rate=0.02", "--points", "7"]
    words = ["tune", "./small.toml", *TUNE, *rates]
    code = run(words)
    captured = capsys.readouterr()
    document = SweepDirectory(Path("runs/t")).document()
    losses = by_rate(document, "prenorm")
    best = min(losses, key=lambda rate: losses[rate])
    assert best not in (min(losses), max(losses))
    assert code == 0
    path = overlay_path("small", "prenorm")
    assert f"wrote {path}" in captured.err
    text = path.read_text()
    for rate, loss in losses.items():
        assert f"#   {rate:g}, 384 tokens: {loss:.4f}" in text
    assert read_mark(path) == Mark("t", "small", document["preset"]["digest"], "prenorm", 9, 1, 384)
    assert tomllib.loads(text)["train"] == {"learning_rate": best, "tuning_seeds": [1000]}
    # Whoever trains the seed that chose the rate hears that nothing rests on it.
    for seed, is_told in ((1000, True), (0, False)):
        one_step = ["train", "./small.toml", "--overlay", "tuned-small-prenorm", "--steps", "1"]
        assert run([*one_step, "--seed", str(seed)]) == 0
        assert (f"seed {seed} chose values of this preset" in capsys.readouterr().err) is is_told
    # `--overlay` finds it, and it is the arm at its rate.
    put_on = load_preset("./small.toml", overlays=["tuned-small-attnres-full"])
    plain = load_preset("./small.toml", residual="attnres-full")
    assert put_on.residual == plain.residual
    rate = put_on.train.learning_rate
    assert put_on == plain.replace({"train.learning_rate": rate, "train.tuning_seeds": [1000]})
    # The same command again trains nothing and says the same.
    assert run(words) == 0
    again = capsys.readouterr()
    assert again.out == captured.out
    assert "nothing left to train" in again.err


def test_an_overlay_is_never_written_over_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    path = overlay_path("small", "prenorm")
    path.parent.mkdir(parents=True)
    path.write_text("# mine\n[train]\nlearning_rate = 1.0\n")
    assert run(["tune", "./small.toml", *TUNE]) == 2
    assert f"There is already an overlay {path}" in capsys.readouterr().err
    assert path.read_text().startswith("# mine")
    assert not Path("runs").exists()
    assert run(["tune", "./small.toml", *TUNE, "--set", "train.learning_rate=0.02", "--points", "7", "--force"]) == 0
    mark = read_mark(path)
    assert mark is not None
    assert mark.tune == "t"


def test_all_trials_diverge(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "./hot.toml", *TUNE]) == 6
    captured = capsys.readouterr()
    assert captured.out.count("diverged") >= 6
    assert len(SweepDirectory(Path("runs/t")).document()["runs"]) == 6  # no stage follows
    assert "Traceback" not in captured.err
    assert not Path("presets").exists()


def test_a_short_search_is_checked_at_the_full_horizon(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", "./small.toml", *TUNE, "--set", "train.learning_rate=0.02", "--horizon-fraction", "0.5"]
    run([*words, "--points", "7", "--json"])
    document = printed_json(capsys)
    for arm in ("prenorm", "attnres-full"):
        runs = [row for row in document["runs"] if row["arm"] == arm]
        short = {row["changes"]["train.learning_rate"]: row["loss"] for row in runs if row["planned_tokens"] == 192}
        full = {row["changes"]["train.learning_rate"]: row["loss"] for row in runs if row["planned_tokens"] == 384}
        winner = min(short, key=lambda rate: short[rate])
        assert sorted(full)[1] == winner
        assert sorted(full) == pytest.approx([winner / 2**0.5, winner, winner * 2**0.5], rel=1e-3)
        facts = tuned(document, arm)
        assert facts["search_loss"] == short[winner]
        assert facts["loss"] == min(full.values())
        if min(full, key=lambda rate: full[rate]) != winner:
            assert facts["edges"][0]["at_full_horizon"]
            assert not facts["is_tuned"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--points", "4"], "--points 4"),
        (["--points", "17"], "--points 17"),
        (["--horizon-fraction", "0"], "--horizon-fraction 0"),
        (["--horizon-fraction", "0.99"], "--horizon-fraction 0.99"),
        (["--query-lr-factor"], "No arm has depth queries"),
        (["--weight-decay", "--set", "train.weight_decay=0.0"], "The weight decay is 0"),
        (["--seeds", "0"], "--seeds 0"),
        (["--trials", "20"], "those of the engine 'grid' follow from --points"),
        (["--engine", "optuna", "--trials", "5"], "--trials 5: of every arm"),
        (["--arms", "prenorm"], "--arms and --residual exclude each other"),
        (["--arms", ","], "--arms names no arm"),
    ],
)
def test_what_is_no_search_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "./small.toml", "--residual", "prenorm", "--residual", "rezero", *words]) == 2
    assert said in capsys.readouterr().err
    assert not Path("runs").exists()


def test_another_request_under_the_same_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "./small.toml", *TUNE, "--set", "train.learning_rate=0.02"]) in (0, 6)
    assert run(["tune", "./small.toml", *TUNE, "--set", "train.learning_rate=0.03"]) == 3
    assert "train.learning_rate was 0.02 and is now 0.03" in capsys.readouterr().err


def test_a_tune_that_was_stopped_goes_on_where_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", "./small.toml", *TUNE, "--json"]
    code = run(words)
    whole = printed_json(capsys)
    # As it was after the first stage, with one of its runs not begun.
    document = SweepDirectory(Path("runs/t")).document()
    coarse = {document["cells"][index]["key"] for index, cell in enumerate(document["cells"])
              if cell["facts"]["trial"]["rate"] % 4 == 0}  # fmt: skip
    kept = [row for row in document["runs"] if row["cell"] in coarse][:-1]
    for row in document["runs"]:
        if row not in kept:
            shutil.rmtree(Path("runs/t") / row["folder"])
    Path("runs/t/sweep.json").write_text(json.dumps({**document, "runs": kept, "status": "interrupted"}))
    stamps = {path: path.stat().st_mtime_ns for path in Path("runs/t").glob("*/metrics.jsonl")}
    assert len(stamps) == 5
    assert run(words) == code
    assert printed_json(capsys)["tuned"] == whole["tuned"]
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert len(list(Path("runs/t").glob("*/metrics.jsonl"))) == 10


def test_a_failed_trial_is_a_row_and_its_arm_waits_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = ["tune", "./small.toml", *TUNE]
    assert run(sweep) in (0, 6)
    document = SweepDirectory(Path("runs/t")).document()
    first = next(row for row in document["runs"] if row["arm"] == "prenorm")
    shutil.rmtree(Path("runs/t") / first["folder"])
    failed = [{**row, "status": "failed", "loss": None, "error": "its process was killed by SIGKILL"}
              if row is first else row for row in document["runs"]]  # fmt: skip
    Path("runs/t/sweep.json").write_text(json.dumps({**document, "runs": failed}))
    capsys.readouterr()
    assert run(["sweep", "show", "t"]) == 0
    said = capsys.readouterr().out
    assert "prenorm: not tuned yet: trials are missing." in said
    assert "its process was killed by SIGKILL" in said
    assert run([*sweep, "--json"]) in (0, 6)  # tried again
    assert {row["status"] for row in printed_json(capsys)["runs"]} == {"finished"}


def test_no_verdict_rests_on_a_tune(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "./small.toml", *TUNE, "--seeds", "3"]) in (0, 6)
    capsys.readouterr()
    assert run(["compare", "t", "--no-bench", "--json"]) == 0
    [verdict] = printed_json(capsys)["verdicts"]
    assert (verdict["kind"], verdict["outcome"]) == ("no verdict", "trials")
    assert verdict["reasons"] == ["these runs chose learning rates; no verdict rests on them"]


def test_what_is_left_of_a_tune_is_resumed_and_sends_on_to_the_tune(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "./small.toml", *TUNE]) in (0, 6)
    document = SweepDirectory(Path("runs/t")).document()
    capsys.readouterr()
    began = "attnres tune ./small.toml --points 3"
    for command, goes_on in (
        (f"{began} --name t", f"{began} --name t\n"),
        (began, f"{began} --name t\n"),
        ("python -m pytest", "attnres tune … --name t\n"),
    ):
        # A rate that was too high is a result, and no reason for another exit code.
        rows = [{**row, "status": "diverged" if row is document["runs"][0] else row["status"]}
                for row in document["runs"]]  # fmt: skip
        Path("runs/t/sweep.json").write_text(json.dumps({**document, "runs": rows, "command": command}))
        assert run(["sweep", "resume", "t"]) == 0
        said = capsys.readouterr().err
        assert said.endswith(f"choose the next trials and write the overlays with: {goes_on}")
        assert "attnres compare" not in said


# ---------------------------------------------------------------- another engine

OPTUNA = ["tune", "./small.toml", *TUNE, "--engine", "optuna", "--trials", "6", "--set", "train.learning_rate=0.02"]


def test_optuna_gives_every_arm_as_many_trials_in_one_range_and_goes_on_where_it_was(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run([*OPTUNA, "--points", "5", "--json"])
    captured = capsys.readouterr()
    whole = json.loads(captured.out)
    assert "Optuna's TPE over learning rates from 0.005 to 0.08, then ±√2 of it for each arm" in captured.err
    assert whole["price"]["runs"] == 12
    assert {row["seed"] for row in whole["runs"]} == {1000}
    for arm in ("prenorm", "attnres-full"):
        losses = by_rate(whole, arm)
        assert len(losses) == 6
        assert losses[0.02] == tuned(whole, arm)["common_loss"]
        # The pair beside the best of the search may lie beyond the range; nothing else does.
        assert sum(0.005 <= rate <= 0.08 for rate in losses) >= 5
        refining = [cell["coordinates"]["learning_rate"] for cell in whole["cells"] if cell["facts"]["trial"]["refines"]
                    and cell["coordinates"]["learning_rate"] in losses]  # fmt: skip
        before = {rate: loss for rate, loss in losses.items() if rate not in refining}
        winner = min(before, key=lambda rate: before[rate])
        assert sorted(refining) == pytest.approx([winner / 2**0.5, winner * 2**0.5], rel=2e-3)
        assert (tuned(whole, arm)["best"]["learning_rate"], tuned(whole, arm)["loss"]) == min(
            losses.items(), key=lambda item: item[1]
        )
        assert overlay_path("small", arm).exists() is tuned(whole, arm)["is_tuned"]
    # Both arms start alike: the common rate and the same draws.
    assert len(by_rate(whole, "prenorm").keys() & by_rate(whole, "attnres-full").keys()) >= 3
    assert code == (0 if all(each["is_tuned"] for each in whole["tuned"]) else 6)

    # As it was in the middle: four trials of one arm, three of the other, one of them without a result.
    document = SweepDirectory(Path("runs/t")).document()
    drawn = [cell["key"] for cell in document["cells"] if not cell["facts"]["trial"]["refines"]]
    kept = [row for row in document["runs"] if row["cell"] in drawn]
    kept = [row for row in kept if row["arm"] == "prenorm"][:4] + [row for row in kept if row["arm"] != "prenorm"][:2]
    shared = {cell["key"]: cell for cell in document["cells"]}
    for row in document["runs"]:
        if row not in kept:
            shutil.rmtree(Path("runs/t") / row["folder"])
    part = {**document, "runs": kept, "cells": [shared[key] for key in dict.fromkeys(row["cell"] for row in kept)]}
    Path("runs/t/sweep.json").write_text(json.dumps({**part, "status": "interrupted"}))
    stamps = {path: path.stat().st_mtime_ns for path in Path("runs/t").glob("*/metrics.jsonl")}
    assert len(stamps) == 6
    assert run([*OPTUNA, "--points", "5", "--json"]) == code
    again = printed_json(capsys)
    assert again["tuned"] == whole["tuned"]
    for arm in ("prenorm", "attnres-full"):
        assert by_rate(again, arm) == by_rate(whole, arm)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


def test_a_range_of_optuna_does_not_grow_and_the_hint_names_another_tune(capsys: pytest.CaptureFixture[str]) -> None:
    low = ["--set", "train.learning_rate=1e-6", "--residual", "prenorm"]
    words = ["tune", "./small.toml", "--name", "t", "--jobs", "1", "--points", "3", "--engine", "optuna", *low]
    assert run(words) == 6
    said = capsys.readouterr().out
    assert "prenorm: not tuned: its lowest loss is at" in said
    assert "Widen, in a tune of its own: " in said
    assert "--name t-wider --points 5" in said
    assert run([*words, "--points", "5"]) == 3
    assert "points was [0.5, 1.0, 2.0] and is now" in capsys.readouterr().err


def test_a_missing_library_is_said_before_any_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert run([*OPTUNA, "--dry-run"]) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert "Optuna is not installed." in said
    assert "pip install 'attnres-cli[tune]'" in said
    assert "timing" not in said
    assert not Path("runs").exists()


def test_an_unknown_engine_is_an_error_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "./small.toml", *TUNE, "--engine", "optima"]) == 3
    said = capsys.readouterr().err
    assert "There is no engine of attnres tune 'optima'" in said
    assert "optuna" in said


# ---------------------------------------------------------------- arms that are overlays


def test_an_ablation_is_tuned_like_a_scheme_and_its_overlay_is_the_ablation_at_its_rate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("presets/overlays").mkdir(parents=True)
    Path("presets/overlays/plain-wsd.toml").write_text('[train]\nschedule = "wsd"\ndecay_fraction = 0.25\n')
    words = ["tune", "./small.toml", "--arms", "paper-full-sigmoid,plain-wsd", "--points", "5"]
    code = run([*words, "--set", "train.learning_rate=0.02", "--jobs", "1", "--name", "t", "--json"])
    document = printed_json(capsys)
    labels = ["paper-full-sigmoid", "plain-wsd"]
    assert [arm["label"] for arm in document["arms"]] == labels
    assert {label: len(by_rate(document, label)) for label in labels} == dict.fromkeys(labels, 7)
    assert code == 0
    for label in labels:
        put_on = load_preset("./small.toml", overlays=[f"tuned-small-{label}"])
        plain = load_preset("./small.toml", overlays=[label])
        rate = tuned(document, label)["best"]["learning_rate"]
        assert put_on == plain.replace({"train.learning_rate": rate, "train.tuning_seeds": [1000]})
        digest = put_on.replace({"train.seed": 1000, "train.tuning_seeds": None}).digest()
        assert digest in {row["digest"] for row in document["runs"] if row["arm"] == label}


def test_arms_that_say_what_is_to_be_found_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("presets/overlays").mkdir(parents=True)
    Path("presets/overlays/hot.toml").write_text("[train]\nlearning_rate = 0.5\n")
    Path("presets/overlays/firm.toml").write_text("[train]\nweight_decay = 0.3\n")
    Path("presets/overlays/quick.toml").write_text('[residual]\nscheme = "attnres-full"\nquery_lr_factor = 4.0\n')
    assert run(["tune", "./small.toml", "--arms", "prenorm,hot"]) == 2
    assert "The overlay 'hot' says train.learning_rate" in capsys.readouterr().err
    assert run(["tune", "./small.toml", "--arms", "prenorm,firm", "--dry-run"]) == 0
    assert run(["tune", "./small.toml", "--arms", "prenorm,firm", "--weight-decay"]) == 2
    assert "The overlay 'firm' says train.weight_decay" in capsys.readouterr().err
    assert run(["tune", "./small.toml", "--arms", "attnres-full,quick", "--query-lr-factor"]) == 2
    assert "different values of query_lr_factor: 1.0, 4.0" in capsys.readouterr().err
    assert run(["tune", "./small.toml", "--arms", "prenorm,papr-full"]) == 2
    assert "nearest: paper-full" in capsys.readouterr().err
