"""`attnres plan` through the real entry point."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from tests import forked

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
        shallow = ("--set", "model.transformer_blocks=4")  # eight blocks of one sublayer; the depth is not the question
        table = plan_json(capsys, "cpu-deep", *words, *shallow, "--no-calibrate")["memory_accesses"]
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


PREPARABLE = {
    "text": 'corpus = "text"\nfiles = ["*.txt"]\ntokenizer = "bytes"\n',
    "text in pairs": 'corpus = "text"\nfiles = ["*.txt"]\ntokenizer = "bpe-4096"\n',
    "synthetic": 'corpus = "synthetic"\ntask = "copy"\ndocuments = 400\n',
    "tokens": 'corpus = "tokens"\nvocab_size = 9\nfiles = ["*.bin"]\n',
    "stdlib": 'corpus = "stdlib"\ntokenizer = "bytes"\n',
}


@pytest.mark.parametrize(("kind", "data"), PREPARABLE.items(), ids=PREPARABLE)
def test_epochs_are_estimated_until_the_corpus_is_prepared(
    kind: str, data: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNRES_CACHE", str(tmp_path / "cache"))
    prose = (ROOT / "data_samples" / "prose.txt").read_text()
    for number in range(40):
        (tmp_path / f"{number}.txt").write_text(f"{number} {prose[number * 100 :]}")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "ids.bin").write_bytes(bytes(20_000))
    os.utime(tmp_path / "ids.bin", (0, 0))  # a file that may still change is looked at each time
    (tmp_path / "mine.toml").write_text(f'extends = "cpu-tiny"\n[data]\n{data}[eval]\ntokens = 64\n')
    guess = plan_json(capsys, "mine.toml", "--no-calibrate")["data"]
    assert (guess["is_estimate"], guess["epochs_unknown"]) == (True, None)
    assert run(["plan", "mine.toml", "--no-calibrate"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"epochs of the corpus {guess['corpus']} (about " in said
    assert "which is not prepared" in said
    assert run(["data", "prepare", "mine.toml"]) == 0
    capsys.readouterr()
    known = plan_json(capsys, "mine.toml", "--no-calibrate")["data"]
    assert (known["is_estimate"], known["epochs_unknown"]) == (False, None)
    # The split holds out whole documents, and how much text a pair of bytes is differs from text to text.
    tolerance = 0.35 if kind == "text in pairs" else 0.1
    for key in ("train_tokens", "epochs"):
        assert guess[key] == pytest.approx(known[key], rel=tolerance)
    assert run(["plan", "mine.toml", "--no-calibrate"]) == 0
    assert "about" not in next(line for line in capsys.readouterr().out.splitlines() if "epochs of the corpus" in line)


@pytest.mark.parametrize(
    "data",
    [
        'corpus = "jsonl"\nfiles = ["a.jsonl"]\n',  # how much of a line is text?
        'corpus = "text"\nfiles = ["a.jsonl"]\ntokenizer = "gpt2"\n',  # how many bytes are a token?
        'corpus = "text"\nfiles = ["a.jsonl"]\n',  # shorter than a sequence
    ],
)
def test_epochs_that_nobody_can_estimate_are_known_later(
    data: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNRES_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "mine.toml").write_text(f'extends = "cpu-tiny"\n[data]\n{data}')
    found = plan_json(capsys, "mine.toml", "--no-calibrate")["data"]
    assert (found["epochs"], found["train_tokens"], found["is_estimate"]) == (None, None, None)
    wanted = "is not on this machine" if "gpt2" in data else "known after `attnres data prepare mine.toml`"
    assert wanted in found["epochs_unknown"]


def test_a_plan_says_of_missing_data_where_it_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A plan for another machine, where the data is: nothing here is an error."""
    (tmp_path / "mine.toml").write_text('extends = "cpu-tiny"\n[data]\npackages = ["no_such_one", "nor_this"]\n')
    unknown = plan_json(capsys, "mine.toml", "--no-calibrate")["data"]["epochs_unknown"]
    assert unknown.count("(mine.toml:3)") == 2
    assert "no_such_one" in unknown
    assert "nor_this" in unknown


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


def test_without_calibration_nothing_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own: this one may have the operators."""
    monkeypatch.setenv("ATTNRES_NATIVE_CACHE", str(tmp_path / "native"))
    words = ("plan", "cpu-tiny", "--residual", "attnres-block", "--no-calibrate")
    with forked.start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert "Building" not in said
    assert not (tmp_path / "native").exists()
