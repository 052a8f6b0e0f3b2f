"""`attnres bench` through the real entry point."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode

# A step of a millisecond or two.
TINY = (
    "--set", "model.transformer_blocks=1", "--set", "model.d_model=16", "--set", "model.num_heads=2",
    "--set", "model.context_tokens=16", "--set", "train.tokens_per_step=32", "--set", "train.micro_batch_sequences=1",
    "--set", "train.threads=1",
)  # fmt: skip
VOCABULARY = ("--vocab-size", "40")
TWO_ARMS = ("--residual", "prenorm", "--residual", "attnres-block")


@pytest.fixture(autouse=True)
def settings_as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    import torch

    from attnres_cli.bench import operator, payload

    for module in (payload, operator):  # long samples are for those who believe the figures
        monkeypatch.setattr(module, "SAMPLE_SECONDS", 0.002)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def bench(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What the command prints on stdout; it has to end with `code`."""
    vocabulary = () if "--operator" in words else VOCABULARY
    ended = run(["bench", "cpu-tiny", *TINY, *vocabulary, *words])
    streams = capsys.readouterr()
    assert ended == code, streams.err
    assert "Traceback" not in streams.err
    return streams.out


def bench_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(bench(capsys, *words, "--json", code=code))
    return loaded


@pytest.mark.parametrize("mode", ["train", "forward", "prefill", "decode"])
def test_every_mode(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = bench_json(capsys, "--mode", mode, "--pairs", "2", *TWO_ARMS)
    assert found["schema"] == "attnres.bench/1"
    assert found["mode"] == mode
    assert found["setting"]["threads"] == 1
    assert found["setting"]["omp_wait_policy"] == "PASSIVE"
    assert found["model"]["vocab_size"] == 40
    assert [arm["name"] for arm in found["arms"]] == ["prenorm", "attnres-block"]
    for arm in found["arms"]:
        assert len(arm["wall_seconds"]) == len(arm["cpu_seconds"]) == 2
        assert set(arm["metrics"]) == set(found["metrics"])
        assert arm["metrics"]["tokens_per_second"] > 0
        assert arm["metrics"]["peak_bytes"] > 0
        assert arm["metrics"]["flops_utilisation"] is None
    assert found["arms"][0]["metrics"]["step_ratio"] == 1.0
    assert found["load"].get("prompt_tokens") == (15 if mode in ("prefill", "decode") else None)
    assert {row["scheme"] for row in found["memory_accesses"]["rows"]} >= {"standard", "AttnRes block"}


def test_tables_and_where_things_go(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "cpu-tiny", *TINY, "--pairs", "2"]) == 0
    streams = capsys.readouterr()
    for text in (
        "Bench of cpu-tiny",
        "attnres-full: training step ×",
        "1 of ",
        "back end",
        "Memory accesses of the resid",
    ):
        assert text in streams.out
    assert "rounds …" in streams.err
    assert "\x1b" not in streams.out + streams.err


def test_the_same_scheme_twice(capsys: pytest.CaptureFixture[str]) -> None:
    found = bench_json(
        capsys, "--pairs", "2", "--residual", "prenorm", "--residual", "prenorm", "--residual", "prenorm"
    )
    assert [arm["name"] for arm in found["arms"]] == ["prenorm", "prenorm-2", "prenorm-3"]


def test_a_back_end_that_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    found = bench_json(capsys, "--pairs", "1", "--backend", "torch", *TWO_ARMS)
    assert {(arm["facts"]["backend"], arm["facts"]["backend_reason"]) for arm in found["arms"]} == {
        ("torch", "asked for")
    }


def test_depths(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--depth", "2, 1,2", "--pairs", "2", *TWO_ARMS)
    found = bench_json(capsys, *words)
    assert found["schema"] == "attnres.bench-depth/1"
    names = ["prenorm@1", "attnres-block@1", "prenorm@2", "attnres-block@2"]
    assert [arm["name"] for arm in found["arms"]] == names
    assert [arm["is_baseline"] for arm in found["arms"]] == [True, False, True, False]
    small, large = found["arms"][0]["facts"], found["arms"][2]["facts"]
    assert small["parameters"] < large["parameters"]
    text = bench(capsys, *words, "--fail-on", "attnres-block@2.peak_ratio > 0", code=ExitCode.THRESHOLD)
    assert "by depth" in text
    assert "is true" in text


def test_the_operator_alone(capsys: pytest.CaptureFixture[str]) -> None:
    found = bench_json(capsys, "--operator", "--pairs", "2", *TWO_ARMS)
    assert found["schema"] == "attnres.bench-operator/1"
    assert min(found["ceilings"].values()) > 0
    names = [arm["name"] for arm in found["arms"]]
    assert {"prenorm@reference", "attnres-block@torch", "attnres-block@torch@forward"} <= set(names)
    for arm in found["arms"]:
        figures = arm["metrics"]
        assert figures["bytes_per_second"] == pytest.approx(figures["moved_bytes"] / figures["seconds"])
        assert figures["floor_seconds"] == pytest.approx(figures["seconds"] / figures["floor_ratio"])
    words = ("--operator", "--pairs", "1", "--backend", "torch", "--residual", "attnres-full")
    text = bench(capsys, *words, "--fail-on", "attnres-full@torch.floor_ratio < 0")
    assert "Forward and backward" in text
    assert "reference" not in text


# ------------------------------------------------------------------ earlier results and conditions


def test_against_an_earlier_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    earlier = tmp_path / "earlier.json"
    bench(capsys, "--pairs", "2", *TWO_ARMS, "-o", str(earlier))
    words = ("--pairs", "2", *TWO_ARMS, "--against", str(earlier))
    found = bench_json(capsys, *words)
    (change,) = found["against"]["changes"]
    assert change["arm"] == "attnres-block"
    assert change["change"] == change["now"]["median"] - change["then"]["median"]
    assert found["against"]["differences"] == []
    assert "Ratios now and in" in bench(capsys, *words)
    changed = bench_json(capsys, *words, "--set", "train.precision='bf16'")
    assert changed["against"]["differences"] == ["precision: bf16 now, fp32 then"]

    fine = ("--fail-on", "attnres-block.peak_ratio > 2 * baseline.attnres-block.peak_ratio")
    broken = ("--fail-on", "attnres-block.peak_ratio >= baseline.attnres-block.peak_ratio - 0.5")
    assert bench_json(capsys, *words, *fine)["conditions"][0]["holds"] is False
    text = bench(capsys, *words, *fine, *broken, code=ExitCode.THRESHOLD)
    assert "1 of 2 conditions hold" in text


def test_the_result_is_written_even_where_a_condition_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "now.json"
    words = ("--pairs", "1", *TWO_ARMS, "--fail-on", "prenorm.step_seconds > 0", "-o", str(file))
    assert bench(capsys, *words, code=ExitCode.THRESHOLD) == ""
    assert json.loads(file.read_text())["conditions"][0]["holds"] is True


# ------------------------------------------------------------------ what is refused, and before anything is timed


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--mode", "trian"], ExitCode.USAGE, "train"),
        (["--backend", "torhc"], ExitCode.USAGE, "torch"),
        (["--residual", "attnres-blok"], ExitCode.INPUT, "attnres-block"),
        (["--depth", "2,x"], ExitCode.USAGE, "numbers of transformer blocks"),
        (["--depth", "0"], ExitCode.USAGE, "numbers of transformer blocks"),
        (
            ["--depth", "2", "--set", "residual.num_blocks=5", "--residual", "attnres-block"],
            ExitCode.INPUT,
            "num_blocks",
        ),
        (["--pairs", "0"], ExitCode.USAGE, "--pairs"),
        (["--mode", "decode", "--prompt-tokens", "16"], ExitCode.USAGE, "up to 15"),
        (["--prompt-tokens", "8"], ExitCode.USAGE, "reads none"),
        (["--mode", "prefill", "--compile"], ExitCode.USAGE, "is not compiled"),
        (["--operator", "--depth", "2"], ExitCode.USAGE, "alone"),
        (["--operator", "--mode", "decode"], ExitCode.USAGE, "alone"),
        (["--operator"], ExitCode.USAGE, "--vocab-size"),
        (["--fail-on", "attnres-block.step_ratio >"], ExitCode.USAGE, "ends too early"),
        (["--fail-on", "attnres-blok.step_ratio > 1"], ExitCode.USAGE, "attnres-block"),
        (["--fail-on", "prenorm.step_ration > 1"], ExitCode.USAGE, "step_ratio"),
        (["--fail-on", "baseline.prenorm.step_ratio > 1"], ExitCode.USAGE, "--against"),
        (["--against", "nowhere.json"], ExitCode.INPUT, "nowhere.json"),
        (["-o", "nowhere/result.json"], ExitCode.USAGE, "nowhere"),
        (["-o", "result.xyz"], ExitCode.USAGE, ".xyz"),
    ],
)
def test_bad_input(words: list[str], code: ExitCode, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "cpu-tiny", *TINY, *VOCABULARY, *words]) == code
    streams = capsys.readouterr()
    assert said in streams.err
    assert "rounds" not in streams.err.split("error:")[0]
    assert streams.out == ""
    assert "Traceback" not in streams.err


def test_a_figure_that_is_not_measured_here_is_an_error_after_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--pairs", "1", *TWO_ARMS, "--fail-on", "prenorm.compile_seconds > 1"]
    assert run(["bench", "cpu-tiny", *TINY, *words]) == ExitCode.USAGE
    streams = capsys.readouterr()
    assert "prenorm.compile_seconds was not measured" in streams.err
    assert "Training step of each arm" in streams.out


def test_what_changes_nothing_is_noted_of_every_arm(capsys: pytest.CaptureFixture[str]) -> None:
    from attnres_cli.cli.bench_options import arms_of

    arms_of("cpu-tiny", ["prenorm", "haares"], [], [], None, None, needs_vocabulary=False)
    assert capsys.readouterr().err.startswith("note: residual.detail does nothing")
