"""`attnres plan` through the real entry point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def plan_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["plan", *words, "--json"]) == 0
    streams = capsys.readouterr()
    loaded: dict[str, Any] = json.loads(streams.out)
    return loaded


def test_one_arm_as_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "cpu-tiny", "--no-calibrate"]) == 0
    said = capsys.readouterr().out
    for heading in (
        "Plan of cpu-tiny",
        "Parameters",
        "FLOPs per token",
        "Peak memory of a training step",
        "Training",
        "Norms at initialisation",
        "Memory accesses of the residual path",
    ):
        assert heading in said
    assert "Time on" not in said
    assert "Pipeline" not in said
    assert "\x1b" not in said


def test_arms_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--residual", "prenorm", "--residual", "attnres-block", "--residual", "attnres-full", "--no-calibrate")
    plan = plan_json(capsys, "cpu-tiny", *words)
    assert plan["schema"] == "attnres.plan/1"
    assert [arm["scheme"] for arm in plan["arms"]] == ["prenorm", "attnres-block", "attnres-full"]
    for arm in plan["arms"]:
        assert sum(arm["parameters_by_part"].values()) == arm["parameters"]
        assert sum(arm["memory_bytes_by_part"].values()) == arm["memory_bytes"]
        assert arm["time"] is None
        assert 0 < arm["smallest_mean_square"] < 1
    base, block, _ = plan["arms"]
    model = plan["model"]
    added = block["parameters"] - base["parameters"]
    assert added == 2 * model["d_model"] * (model["sublayers"] + 1)
    assert {row["part"] for row in plan["tables"]["parameters"]["rows"]} >= {"embedding", "residual", "total"}
    assert (plan["memory_accesses"]["blocks"], plan["memory_accesses"]["blocks_are_the_arms"]) == (4, True)
    peaks = {row["part"]: row for row in plan["tables"]["memory"]["rows"]}
    assert set(peaks) == {"weights", "optimiser state", "pass, at its peak", "total"}


def test_blocks_are_found_whichever_scheme_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    for order in (("attnres-full", "attnres-block"), ("attnres-block", "attnres-full")):
        words = [word for scheme in order for word in ("--residual", scheme)]
        table = plan_json(capsys, "cpu-deep", *words, "--no-calibrate")["memory_accesses"]
        assert (table["blocks"], table["blocks_are_the_arms"]) == (8, True)


def test_pipeline_and_prefill(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--residual", "attnres-full", "--no-calibrate", "--pipeline", "2, 1")
    plan = plan_json(capsys, "cpu-tiny", *words, "--prefill-tokens", "131072", "--tensor-parallel", "8")
    arm = plan["arms"][0]
    width, sublayers = plan["model"]["d_model"], plan["model"]["sublayers"]
    assert arm["prefill"]["total_bytes"] == sublayers * 131_072 * width * 2
    assert arm["prefill"]["chunked_bytes_per_device"] == sublayers * 16_384 / 8 * width * 2
    # Two chunks, one transition: the embedding and the outputs of the first half.
    assert arm["pipeline"]["naive_bytes_per_token"] == (1 + sublayers // 2) * width * 2
    assert run(["plan", "cpu-tiny", *words]) == 0
    assert "Pipeline communication per token" in capsys.readouterr().out


def test_calibration_trains_a_small_model(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnres_cli.bench.calibrate.SECONDS", 0.05)
    time = plan_json(capsys, "cpu-tiny", "--set", "train.device='cpu'")["arms"][0]["time"]
    assert time["method"] == "training steps"
    assert time["run_seconds"] > time["step_seconds"] > 0
    assert run(["plan", "cpu-tiny"]) == 0
    assert "without validation" in capsys.readouterr().out


def test_a_device_that_is_not_there_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("needs a machine without CUDA")
    assert run(["plan", "cpu-tiny", "--set", "train.device='cuda'"]) == 0
    assert "n/a" in capsys.readouterr().out


@pytest.mark.parametrize("preset", ["gpu-124m", "gpu-350m", "gpu-deep-124m"])
def test_presets_for_large_machines_plan_anywhere(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_json(capsys, preset, "--no-calibrate", "--residual", "attnres-block", "--set", "data.tokenizer='bytes'")
    assert plan["arms"][0]["memory_bytes"] > 2**30
    assert plan["arms"][0]["smallest_mean_square"] is None


def test_epochs_are_known_once_the_corpus_is_prepared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNRES_CACHE", str(tmp_path / "cache"))
    for number in range(40):
        (tmp_path / f"{number}.txt").write_text(f"text number {number} " * 40)
    (tmp_path / "mine.toml").write_text(
        'extends = "cpu-tiny"\n[data]\ncorpus = "text"\nfiles = ["*.txt"]\ntokenizer = "bytes"\n[eval]\ntokens = 64\n'
    )
    data = plan_json(capsys, "mine.toml", "--no-calibrate")["data"]
    assert data["epochs"] is None
    assert data["epochs_unknown"] == "known after `attnres data prepare mine.toml`"
    assert run(["data", "prepare", "mine.toml"]) == 0
    capsys.readouterr()
    data = plan_json(capsys, "mine.toml", "--no-calibrate")["data"]
    assert data["epochs"] > 1
    assert data["train_tokens"] > 1000


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["cpu-tniy"], ExitCode.INPUT, "cpu-tiny"),
        (["cpu-tiny", "--residual", "attnres-blok"], ExitCode.INPUT, "attnres-block"),
        (["cpu-tiny", "--set", "model.d_modle=3"], ExitCode.INPUT, "d_model"),
        (["cpu-tiny", "--pipeline", "4"], ExitCode.USAGE, "P,V"),
        (["cpu-tiny", "--pipeline", "0,2"], ExitCode.USAGE, "P,V"),
        (["cpu-tiny", "--pipeline", "40,20"], ExitCode.USAGE, "transformer blocks"),
        (["cpu-tiny", "--tensor-parallel", "8"], ExitCode.USAGE, "--prefill-tokens"),
        (["cpu-tiny", "--prefill-tokens", "0"], ExitCode.USAGE, "--prefill-tokens"),
        ([], ExitCode.USAGE, "PRESET"),
    ],
)
def test_bad_input(words: list[str], code: ExitCode, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", *words, *(["--no-calibrate"] if words else [])]) == code
    streams = capsys.readouterr()
    assert said in streams.err
    assert streams.out == ""
    assert "Traceback" not in streams.err


def test_without_calibration_nothing_is_compiled(tmp_path: Path) -> None:
    environment = {**os.environ, "ATTNRES_NATIVE_CACHE": str(tmp_path / "native"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "attnres_cli", "plan", "cpu-tiny", "--residual", "attnres-block", "--no-calibrate"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Building" not in done.stderr
    assert not (tmp_path / "native").exists()
