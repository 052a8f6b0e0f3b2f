"""`--tune-rates` of `attnres sweep` through the program's entry point, with trainings of a fraction of a second."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.lookup import list_runs
from tests.small import small_preset

DEPTH = ["sweep", "depth", "./small.toml", "--blocks", "2", "--residual", "prenorm", "--tune-rates", "3"]
DEPTH += ["--name", "d", "--jobs", "1"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder_with_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    changes: dict[str, Any] = {
        "train.horizon_tokens": 64 * 4, "observe.observers": ["magnitudes"], "eval.every_steps": 0,
    }  # fmt: skip
    Path("small.toml").write_text(small_preset(**changes).to_toml())


def printed_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.parametrize(
    "words",
    [
        ["depth-width", "--ratios", "4"],
        ["depth", "--blocks", "2"],
        ["scaling", "--sizes", "4", "--tokens-per-parameter", "2"],
    ],
    ids=["depth-width", "depth", "scaling"],
)
def test_a_dry_run_prices_the_trials(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    kind, *rest = words
    sweep = ["sweep", kind, "./small.toml", *rest, "--seeds", "2", "--dry-run"]
    assert run([*sweep, "--json"]) == 0
    plain = printed_json(capsys)
    assert run([*sweep, "--tune-rates", "5", "--json"]) == 0
    plan = printed_json(capsys)
    runs = len(plain["runs"])
    assert plan["price"]["runs"] == runs + 5 * runs / 2
    assert plan["price"]["tokens"] == plain["price"]["tokens"] * 7 / 2
    assert {row["seed"] for row in plan["runs"] if row["trial"]} == {1000}
    assert [row["digest"] for row in plan["runs"] if not row["trial"]] == [row["digest"] for row in plain["runs"]]
    assert not Path("runs").exists()


def test_a_number_without_a_middle_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*DEPTH, "--tune-rates", "4"]) == 2
    assert "--tune-rates 4: the rule's rate and as many on either side" in capsys.readouterr().err


def test_the_rate_is_chosen_by_trials_of_its_own_and_a_stopped_sweep_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([*DEPTH, "--json"]) == 0
    whole = printed_json(capsys)
    *trials, seed = whole["runs"]
    for row in whole["runs"]:  # every number is that of a run
        folder = RunDirectory(Path("runs/d") / row["folder"])
        assert folder.evaluations()[-1]["loss"] == row["loss"]
        assert folder.resolved()["train"]["learning_rate"] == row["changes"]["train.learning_rate"]
        assert folder.manifest()["seed"] == row["seed"]
    assert [row["seed"] for row in trials] == [1000, 1000, 1000]
    best = min(trials, key=lambda row: row["loss"])
    assert seed["changes"]["train.learning_rate"] == best["changes"]["train.learning_rate"]
    [rate] = whole["rates"]
    assert rate["learning_rate"] == best["changes"]["train.learning_rate"]
    assert rate["is_tuned"] is (best is trials[1])

    # As it was after the second trial, when it was killed.
    for row in whole["runs"][2:]:
        shutil.rmtree(Path("runs/d") / row["folder"])
    begun = [
        {**row, "status": "planned", "loss": None, "folder": None, "awaits_rate": not row["trial"]}
        for row in whole["runs"][2:]
    ]
    file = Path("runs/d/sweep.json")
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "runs": [*kept["runs"][:2], *begun], "status": "interrupted"}))
    stamps = {path: path.stat().st_mtime_ns for path in Path("runs/d").rglob("metrics.jsonl")}
    assert len(stamps) == 2
    assert run(["sweep", "resume", "d", "--jobs", "1", "--json"]) == 0
    again = printed_json(capsys)
    assert [(row["digest"], row["loss"]) for row in again["runs"]] == [
        (row["digest"], row["loss"]) for row in whole["runs"]
    ]
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert run(DEPTH) == 0
    assert "nothing left to train" in capsys.readouterr().err
    # A comparison of the group sees the runs, not the trials.
    assert [each.path.name for each in list_runs(Path("runs"))] == [seed["folder"]]
