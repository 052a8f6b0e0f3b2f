"""`attnres tune` with another engine, and of arms that are overlays."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from attnres_cli.cli.app import run
from attnres_cli.preset.reading import load_preset
from attnres_cli.sweep.results import SweepDirectory
from attnres_cli.sweep.tuned_overlays import overlay_path
from tests.cli.test_tune import LOW, TUNE, by_rate, printed_json, tuned, write_presets


@pytest.fixture(autouse=True)
def _in_an_empty_folder_with_presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_presets(tmp_path)


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
    low = [*LOW, "--residual", "prenorm"]
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
    words = ["tune", "./small.toml", "--arms", "paper-full-sigmoid,plain-wsd", "--points", "3"]
    code = run([*words, "--jobs", "1", "--name", "t", "--json"])
    document = printed_json(capsys)
    labels = ["paper-full-sigmoid", "plain-wsd"]
    assert [arm["label"] for arm in document["arms"]] == labels
    assert {label: len(by_rate(document, label)) for label in labels} == dict.fromkeys(labels, 5)
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
