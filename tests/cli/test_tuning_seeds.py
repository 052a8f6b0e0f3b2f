"""Seeds that chose values of a preset: whoever trains with them hears beforehand that no verdict rests on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnres_cli.cli.app import run
from tests.small import small_preset

ONE = "seed 1 chose values of this preset (train.tuning_seeds); no verdict rests on it"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(small_preset().to_toml())
    Path("presets/overlays").mkdir(parents=True)
    Path("presets/overlays/tuned.toml").write_text("[train]\nlearning_rate = 0.02\ntuning_seeds = [1, 1000]\n")


def notes(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.removeprefix("note: ") for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]


@pytest.mark.parametrize(("first", "said"), [(0, [ONE]), (2, [])])
def test_of_a_group(first: int, said: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "./small.toml", "--overlay", "tuned", "--seed", str(first), "--seeds", "2", "--steps", "1"]
    assert run([*words, "--jobs", "1"]) == 0
    assert notes(capsys) == said


def test_of_every_seed_of_a_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--overlay", "tuned", "--ratios", "4", "--dry-run", "--set", "train.tuning_seeds=[0, 2, 1]"]
    assert run(["sweep", "depth-width", "./small.toml", "--seeds", "3", *words]) == 0
    said = "seeds 0, 1 and 2 chose values of this preset (train.tuning_seeds); no verdict rests on them"
    assert notes(capsys) == [said]


def test_of_one_arm(capsys: pytest.CaptureFixture[str]) -> None:
    Path("grid.toml").write_text(
        'preset = "./small.toml"\nseeds = 2\noverlays = ["tuned"]\n\n[axes]\n"model.transformer_blocks" = [2]\n'
    )
    assert run(["sweep", "run", "grid.toml", "--dry-run"]) == 0
    assert notes(capsys) == [f"tuned: {ONE}"]


def test_a_tune_spends_them_and_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "./small.toml", "--overlay", "tuned", "--residual", "prenorm", "--dry-run"]) == 0
    assert notes(capsys) == []
