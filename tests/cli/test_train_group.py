"""`attnres train --seeds` and repeated `--residual` through the program's entry point: groups of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.lookup import find_run
from attnres_cli.sweep import preparation
from attnres_cli.sweep.engine import run_sweep
from tests.cli import interrupting
from tests.cli.interrupting import interrupt_this_process
from tests.cli.made_once import Made, made
from tests.small import small_preset

GROUP = ["--residual", "prenorm", "--residual", "attnres-full", "--seeds", "3", "--set", "train.threads=1"]
ALL = ["train", "./small.toml", *GROUP, "--name", "g", "--jobs", "1"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder_with_presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_presets(tmp_path)


def write_presets(folder: Path) -> None:
    size: dict[str, Any] = {
        "model.transformer_blocks": 1,
        "train.horizon_tokens": 64 * 4,
        "train.micro_batch_sequences": 4,
        "data.documents": 100,
        "observe.observers": ["magnitudes"],
        "eval.every_steps": 0,
    }
    (folder / "small.toml").write_text(small_preset(**size).to_toml())
    hot = small_preset(**{**size, "train.learning_rate": 1e30, "train.grad_clip": 0.0})
    (folder / "hot.toml").write_text(hot.to_toml())


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Made:
    """The group that most tests here are about."""
    folder = tmp_path_factory.mktemp("group")
    write_presets(folder)
    return made(ALL, folder, shared_cache)


@pytest.fixture
def finished(once: Made, tmp_path: Path) -> Made:
    """That group, in the working folder."""
    assert once.code == 0, once.err
    once.copy_to(tmp_path)
    return once


def printed_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def losses(document: dict[str, Any]) -> dict[str, float]:
    return {str(row["folder"]): row["loss"] for row in document["runs"]}


def test_a_group_is_paired_by_seed_and_shows_means_intervals_and_every_loss(finished: Made) -> None:
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
    rows = {line.split()[0]: line.split() for line in finished.out.splitlines() if line.split()}
    mean, low, _ = mean_interval(by_arm["prenorm"])
    assert f"{mean:.4f}" in finished.out
    assert f"{mean - low:.4f}" in finished.out
    assert f"{paired_difference(by_arm['attnres-full'], by_arm['prenorm']).mean:+.4f}" in finished.out
    assert rows["prenorm"] == ["prenorm", *(f"{loss:.4f}" for loss in by_arm["prenorm"])]  # the last table: by seed
    assert finished.err.splitlines()[-1] == "compare with: attnres compare g"


@pytest.mark.usefixtures("finished")
def test_a_group_that_is_asked_for_again_trains_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    first = {path.parent.name: RunDirectory(path.parent).evaluations()[-1]["loss"] for path in metrics()}
    stamps = {path: path.stat().st_mtime_ns for path in metrics()}
    assert len(stamps) == 6
    assert run([*ALL, "--json"]) == 0
    assert losses(printed_json(capsys)) == first
    assert {path: path.stat().st_mtime_ns for path in metrics()} == stamps


def metrics() -> list[Path]:
    return list(Path("runs/g").glob("*/metrics.jsonl"))


@pytest.mark.usefixtures("finished")
def test_with_two_places_and_an_interrupt_a_group_ends_where_one_place_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit: runs end in two processes side by side, the fifth interrupts both, and the rest is resumed."""
    first = {path.parent.name: RunDirectory(path.parent).evaluations()[-1]["loss"] for path in metrics()}
    equal_costs = dict.fromkeys(("prenorm", "attnres-full"), 0.01)  # so that runs start in the order of their arms
    monkeypatch.setattr(preparation, "step_seconds", lambda presets, *_: equal_costs)
    fifth = RunDirectory(Path("runs") / interrupting.FOLDER)
    defaults: Any = run_sweep.__kwdefaults__
    with monkeypatch.context() as patch:
        patch.setitem(defaults, "run_job", interrupting.train_job_that_interrupts_the_sweep)
        assert run(["train", "./small.toml", *GROUP, "--name", "cut", "--jobs", "2"]) == 130
    errors = capsys.readouterr().err
    assert errors.splitlines()[-1] == "resume with: attnres sweep resume cut"
    assert "Traceback" not in errors
    document = json.loads(Path("runs/cut/sweep.json").read_text())
    assert document["status"] == "interrupted"
    status = {row["folder"]: row["status"] for row in document["runs"]}
    assert list(status.values()).count("finished") >= 3  # all that were begun before, but for one beside it
    assert status[fifth.path.name] == "interrupted"
    assert fifth.read_state()["step"] == interrupting.STEP
    assert fifth.checkpoints()
    stamps = {name: (Path("runs/cut") / name / "metrics.jsonl").stat().st_mtime_ns for name in status
              if status[name] == "finished"}  # fmt: skip

    assert run(["sweep", "resume", "cut", "--jobs", "1", "--json"]) == 0
    assert losses(printed_json(capsys)) == first
    assert {name: (Path("runs/cut") / name / "metrics.jsonl").stat().st_mtime_ns for name in stamps} == stamps


def test_seeds_alone_repeat_the_presets_own_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seeds", "2", "--seed", "5", "--steps", "3", "--name", "own", "--jobs", "1", "--json"]
    assert run(["train", "./small.toml", *words]) == 0
    document = printed_json(capsys)
    assert [(row["arm"], row["seed"], row["steps"]) for row in document["runs"]] == [
        ("prenorm", 5, 3),
        ("prenorm", 6, 3),
    ]


@pytest.mark.usefixtures("finished")
def test_one_run_of_a_group_is_the_run_that_a_single_train_makes() -> None:
    one = ["--residual", "attnres-full", "--seed", "1", "--set", "train.threads=1", "--name", "single"]
    assert run(["train", "./small.toml", *one]) == 0
    single, grouped = (RunDirectory(Path("runs") / name) for name in ("single", "g/attnres-full-s1"))
    assert single.manifest()["preset_digest"] == grouped.manifest()["preset_digest"]
    assert single.evaluations()[-1]["loss"] == grouped.evaluations()[-1]["loss"]


def test_a_single_residual_without_seeds_is_a_single_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "./small.toml", "--residual", "attnres-full", "--name", "one"]) == 0
    assert RunDirectory(Path("runs/one")).status == "finished"
    assert not Path("runs/one/sweep.json").exists()


def test_failures_are_rows_and_the_group_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "./hot.toml", *GROUP, "--name", "hot", "--jobs", "1"]) == 4
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
