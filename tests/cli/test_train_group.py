"""`attnres train --seeds` and repeated `--residual` through the program's entry point: groups of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.lookup import find_run
from tests.cli.interrupting import interrupt_this_process
from tests.small import small_preset

GROUP = ["--residual", "prenorm", "--residual", "attnres-full", "--seeds", "3", "--name", "g"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder_with_presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_preset("small.toml")
    write_preset("hot.toml", **{"train.learning_rate": 1e30, "train.grad_clip": 0.0})


def write_preset(name: str, **changes: Any) -> None:
    size = {
        "model.transformer_blocks": 2,
        "train.horizon_tokens": 64 * 6,
        "observe.observers": ["magnitudes"],
        "eval.every_steps": 0,
    }
    Path(name).write_text(small_preset(**{**size, **changes}).to_toml())


def printed_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def losses(document: dict[str, Any]) -> dict[str, float]:
    return {str(row["folder"]): row["loss"] for row in document["runs"]}


def test_a_group_is_paired_by_seed_and_shows_means_intervals_and_every_loss(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["train", "./small.toml", *GROUP, "--jobs", "1"]) == 0
    captured = capsys.readouterr()
    names = [f"{arm}-s{seed}" for arm in ("prenorm", "attnres-full") for seed in range(3)]
    assert sorted(path.parent.name for path in Path("runs/g").glob("*/manifest.json")) == sorted(names)
    manifests = {name: find_run(f"g/{name}", Path("runs")).manifest() for name in names}
    for seed in range(3):
        ours, theirs = (manifests[f"{arm}-s{seed}"] for arm in ("attnres-full", "prenorm"))
        assert ours["seed"] == theirs["seed"] == seed
        assert ours["model"]["common_weights_hash"] == theirs["model"]["common_weights_hash"]
    assert len({manifests[f"prenorm-s{seed}"]["model"]["common_weights_hash"] for seed in range(3)}) == 3

    from attnres_cli.analysis.paired import mean_interval, paired_difference

    by_arm = {
        arm: [find_run(f"g/{arm}-s{seed}", Path("runs")).evaluations()[-1]["loss"] for seed in range(3)]
        for arm in ("prenorm", "attnres-full")
    }
    rows = {line.split()[0]: line.split() for line in captured.out.splitlines() if line.split()}
    mean, low, _ = mean_interval(by_arm["prenorm"])
    assert f"{mean:.4f}" in captured.out
    assert f"{mean - low:.4f}" in captured.out
    assert f"{paired_difference(by_arm['attnres-full'], by_arm['prenorm']).mean:+.4f}" in captured.out
    assert rows["prenorm"] == ["prenorm", *(f"{loss:.4f}" for loss in by_arm["prenorm"])]  # the last table: by seed
    assert captured.err.splitlines()[-1] == "compare with: attnres compare g"


def test_a_group_with_two_places_ends_where_one_does_and_nothing_is_trained_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["train", "./small.toml", *GROUP, "--jobs", "1", "--json"]) == 0
    first = losses(printed_json(capsys))
    stamps = {path: path.stat().st_mtime_ns for path in Path("runs/g").glob("*/metrics.jsonl")}
    assert run(["train", "./small.toml", *GROUP, "--jobs", "1", "--json"]) == 0
    assert losses(printed_json(capsys)) == first
    assert {path: path.stat().st_mtime_ns for path in Path("runs/g").glob("*/metrics.jsonl")} == stamps
    pooled = [*GROUP[:-1], "pooled", "--jobs", "2", "--set", "train.threads=1", "--json"]
    assert run(["train", "./small.toml", *pooled]) == 0
    assert losses(printed_json(capsys)) == pytest.approx(first, rel=1e-5)


def test_seeds_alone_repeat_the_presets_own_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seeds", "2", "--seed", "5", "--steps", "4", "--name", "own", "--jobs", "1", "--json"]
    assert run(["train", "./small.toml", *words]) == 0
    document = printed_json(capsys)
    assert [(row["arm"], row["seed"], row["steps"]) for row in document["runs"]] == [
        ("prenorm", 5, 4),
        ("prenorm", 6, 4),
    ]


def test_one_run_of_a_group_is_the_run_that_a_single_train_makes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "./small.toml", "--residual", "attnres-full", "--seed", "1", "--name", "single"]) == 0
    assert run(["train", "./small.toml", *GROUP, "--jobs", "1"]) == 0
    single, grouped = (RunDirectory(Path("runs") / name) for name in ("single", "g/attnres-full-s1"))
    assert single.manifest()["preset_digest"] == grouped.manifest()["preset_digest"]
    assert single.evaluations()[-1]["loss"] == grouped.evaluations()[-1]["loss"]


def test_a_single_residual_without_seeds_is_a_single_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "./small.toml", "--residual", "attnres-full", "--name", "one"]) == 0
    assert RunDirectory(Path("runs/one")).status == "finished"
    assert not Path("runs/one/sweep.json").exists()


def test_failures_are_rows_and_the_group_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "./hot.toml", *GROUP[:-2], "--name", "hot", "--jobs", "1"]) == 4
    captured = capsys.readouterr()
    assert captured.out.count("diverged") >= 6
    assert "Traceback" not in captured.err
    assert run(["sweep", "resume", "hot"]) == 4
    assert "nothing left to train" in capsys.readouterr().err


def test_an_interrupted_group_goes_on_with_the_same_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", "./small.toml", "--seeds", "2", "--set", "train.threads=1"]
    assert run([*words, "--name", "whole", "--jobs", "1", "--json"]) == 0
    whole = losses(printed_json(capsys))
    first = RunDirectory(Path("runs/cut/prenorm-s0"))
    with monkeypatch.context() as patch:
        interrupt_this_process(patch, first.path, 2)
        assert run([*words, "--name", "cut", "--jobs", "1"]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "resume with: attnres sweep resume cut"
    assert first.read_state()["step"] == 2
    assert first.checkpoints()
    assert run([*words, "--name", "cut", "--jobs", "1", "--json"]) == 0
    assert losses(printed_json(capsys)) == whole


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--seeds", "0"], 2, "--seeds 0"),
        (["--jobs", "2"], 2, "--jobs has no effect on a single run"),
        (["--residual", "prenorm", "--residual", "prenorm"], 2, "given twice"),
        (["--residual", "prenorm", "--residual", "prenom"], 3, "prenom"),
        (["--residual", "prenorm", "--residual", "rezero", "--set", "residual.backend=auto"], 2, "has no effect"),
        (["--seeds", "2", "--device", "cuda:99"], 3, "cuda:99"),
    ],
)
def test_nonsense_is_refused_before_anything_is_made(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", "./small.toml", *words]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert not Path("runs").exists()


def test_a_resumed_run_takes_no_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--resume", "x", "--seeds", "3"]) == 2
    assert "--seeds would change it" in capsys.readouterr().err


def test_a_group_of_the_same_name_asked_for_differently_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "./small.toml", "--seeds", "2", "--name", "g", "--jobs", "1"]) == 0
    capsys.readouterr()
    assert run(["train", "./small.toml", "--seeds", "2", "--name", "g", "--set", "train.learning_rate=0.1"]) == 3
    assert "train.learning_rate was 0.01 and is now 0.1" in capsys.readouterr().err
