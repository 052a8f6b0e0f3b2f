"""`attnres sweep hops` through the program's entry point, with trainings of a fraction of a second."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from attnres_cli.preset.reading import load_preset
from attnres_cli.runs.directory import RunDirectory

SCHEMES = ["--residual", "prenorm", "--residual", "attnres-full"]
SWEEP = ["sweep", "hops", "./small.toml", *SCHEMES, "--jobs", "1", "--seeds", "1", "--name", "deep"]


def write_preset(**changes: Any) -> None:
    small = {
        "model.d_model": 16, "model.num_heads": 2, "model.d_ff": 16, "data.documents": 400, "data.symbols": 5,
        "data.length": 5, "data.hops": 3, "data.questions": 2, "model.context_tokens": 16, "train.tokens_per_step": 64,
        "train.micro_batch_sequences": 4, "train.horizon_tokens": 64 * 3, "train.log_every_steps": 1,
        "eval.tokens": 160, "eval.every_steps": 0, "observe.every_steps": 0, "observe.probe_sequences": 10,
    }  # fmt: skip
    Path("small.toml").write_text(load_preset("cpu-hops").replace({**small, **changes}).to_toml())


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def printed_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_every_depth_and_scheme_is_trained_and_its_answers_counted(capsys: pytest.CaptureFixture[str]) -> None:
    write_preset()
    assert run([*SWEEP, "--blocks", "1,2", "--json"]) == 0
    document = printed_json(capsys)
    assert {(each["cell"], each["arm"]) for each in document["hops"]} == {
        (cell, arm) for cell in ("L1", "L2") for arm in ("prenorm", "attnres-full")
    }
    for each, trained in zip(document["hops"], document["runs"], strict=True):
        [seen] = RunDirectory(Path("runs/deep") / trained["folder"]).observations()
        assert seen["observer"] == "answers"
        assert sum(seen["summary"]["answers"]) == 10  # one first answer per held-out document
        for place, kind in enumerate(seen["summary"]["kinds"]):
            assert each["accuracy"][str(kind)] == seen["summary"]["accuracy"][place]
            assert each["answer_loss"][str(kind)] == seen["summary"]["loss"][place]
    assert run([*SWEEP, "--blocks", "3"]) == 0  # the depths grow, nothing is trained again
    captured = capsys.readouterr()
    assert "2 of 6 runs to train" in captured.err
    assert "Deepest number of hops solved" in captured.out
    assert "3 transformer blocks: prenorm solves" in captured.out


def test_without_arguments_it_is_the_definition_and_is_priced(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "hops", "--dry-run", "--json"]) == 0
    plan = printed_json(capsys)
    preset = load_preset("cpu-hops")
    assert plan["tokens"] == preset.train.horizon_tokens
    assert plan["price"]["minutes"] > 0
    assert plan["facts"]["hops"] == preset.to_dict()["data"]["hops"] == 8
    assert len(plan["seeds"]) == 3
    assert len(plan["cells"]) > 1
    write_preset()
    assert run([*SWEEP, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "Questions of 1 to 3 hops through a cycle of 5 nodes" in out
    assert re.search(r"about [0-9.]+(ms|s|m|h)\b.* here", out)


def test_another_task_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "hops", "cpu-tiny", "--dry-run"]) == ExitCode.INPUT
    err = capsys.readouterr().err
    assert "does not train the task of this sweep" in err
    assert "attnres presets cp cpu-hops" in err
    write_preset(**{"observe.observers": ["magnitudes"]})
    assert run(["sweep", "hops", "./small.toml", "--dry-run"]) == ExitCode.INPUT
    assert "'answers' among the observers" in capsys.readouterr().err
