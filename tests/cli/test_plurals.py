"""One of a thing is said to be one: counts and nouns agree in whatever a tiny training, its run and its errors say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import plural
from tests.fabricated_runs import fabricate


def test_plural() -> None:
    assert [f"{count} {plural(count, 'step')}" for count in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]


def disagreements(text: str) -> list[str]:
    return re.findall(r"(?<![\d.,-])\b1 [a-z-]+s\b", text)


def test_a_training_of_one_step_in_one_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    block = ["--residual", "attnres-block", "--set", "residual.num_blocks=1"]
    assert run(["train", "cpu-tiny", *block, "--steps", "1", "--name", "one"]) == 0
    streams = capsys.readouterr()
    assert "4 sublayers in 1 block of 4 sublayers" in streams.err
    assert "1 step of 1,024 tokens" in streams.err
    assert disagreements(streams.out + streams.err) == []
    assert run(["runs", "show", "one"]) == 0
    shown = capsys.readouterr().out
    assert "(1 step)" in shown
    assert disagreements(shown) == []


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (["train.tokens_per_step=64"], "does not divide the 1 sequence of a step (64 tokens / 64)"),
        (["model.context_tokens=1024"], "does not divide the 1 sequence of a step (1024 tokens / 1024)"),
    ],
)
def test_errors_about_one_sequence(said: list[str], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for each in (*said, "train.micro_batch_sequences=2") for word in ("--set", each)]
    assert run(["plan", "cpu-tiny", *words]) == 3
    assert what in capsys.readouterr().err


def test_a_run_of_one_step_that_was_trained_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fabricate(tmp_path / "runs", "many")
    assert run(["runs", "show", "many"]) == 0
    assert "(100 steps)" in capsys.readouterr().out
