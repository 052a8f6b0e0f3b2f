"""`attnres sweep …` through the program's entry point, with trainings of a fraction of a second."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.runs.directory import RunDirectory
from tests.cli.interrupting import interrupt_this_process
from tests.small import small_preset

ROOT = Path(__file__).parents[2]
# 2 arms and 2 ratios: four trainings of eight steps.
GRID = ["--ratios", "6,12", "--name", "grid"]
ONE_BLOCK = {"model.transformer_blocks": 1, "model.d_model": 16, "model.num_heads": 2, "model.d_ff": 24}


@pytest.fixture(autouse=True)
def _in_an_empty_folder_with_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_preset("small.toml")


def write_preset(name: str, **changes: Any) -> None:
    size = {
        "model.d_model": 48,
        "model.num_heads": 6,
        "model.d_ff": 128,
        "train.horizon_tokens": 64 * 8,
        "observe.observers": ["magnitudes"],
    }
    Path(name).write_text(small_preset(**{**size, **changes}).to_toml())


def printed_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def losses(document: dict[str, Any]) -> dict[str, float]:
    return {f"{row['cell']}-{row['arm']}": row["loss"] for row in document["runs"]}


# ---------------------------------------------------------------- before anything runs


def test_a_dry_run_prints_every_cell_and_every_impossible_one_and_makes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    grid = ["--ratios", "6,12,1000", "--head-ratios", "0.5,1,4"]
    assert run(["sweep", "depth-width", "./small.toml", *grid, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    for words in ("r6-h0.5", "r12-h1", "r12-h4", "Pinned: non-embedding parameters"):
        assert words in printed
    assert re.search(r"r6-h4 .*a head needs an even size of at least 4", printed)
    assert re.search(r"r1000-h1 .*less than one transformer block", printed)
    assert "Peak learning rate = 0.01 × (d_model / 48)^-1" in printed
    assert not Path("runs").exists()


def test_ratios_out_of_all_reason_are_refused_with_their_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "depth-width", "./small.toml", "--ratios", "1e9,1e-9,1e300", "--dry-run", "--json"]) == 3
    streams = capsys.readouterr()
    errors = json.loads(streams.err[streams.err.index("{") :])["errors"]
    assert [each["what"].split()[1] for each in errors] == ["r1e-09", "r1e+09", "r1e+300"]
    assert "of at least 4 channels needed" in errors[0]["what"]
    assert all("less than one transformer block" in each["what"] for each in errors[1:])
    assert all("the matched size means L_b " in each["what"] for each in errors)


@pytest.mark.parametrize("match", ["parameters", "flops"])
def test_the_plan_as_json_has_real_counts(match: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "depth-width", "./small.toml", "--ratios", "6,12", "--match", match, "--dry-run", "--json"]
    assert run(words) == 0
    plan = printed_json(capsys)
    assert plan["schema"] == "attnres.sweep-plan/1"
    pinned = {"parameters": "non_embedding_parameters", "flops": "training_flops_per_token"}[match]
    assert [abs(cell["facts"]["mismatch"][pinned]) <= 0.02 for cell in plan["cells"]] == [True, True]
    assert len(plan["runs"]) == 4


def test_schemes_budgets_and_rules_reach_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--ratios", "12", "--residual", "attnres-full", "--residual", "prenorm", "--budget-flops", "1e10"]
    words += ["--lr-power", "0", "--set", "train.seed=3", "--dry-run", "--json"]
    assert run(["sweep", "depth-width", "./small.toml", *words]) == 0
    plan = printed_json(capsys)
    assert [arm["label"] for arm in plan["arms"]] == ["attnres-full", "prenorm"]
    assert plan["preset"]["values"]["train"]["seed"] == 3
    assert plan["cells"][0]["facts"]["learning_rate"] == 0.01
    assert plan["tokens"] % 64 == 0
    assert plan["tokens"] > 20 * 64


def test_minutes_are_calibrated_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["sweep", "depth-width", "./small.toml", "--ratios", "12", "--budget-minutes", "2", "--dry-run", "--json"])
        == 0
    )
    budget = printed_json(capsys)["budget"]
    assert 0 < budget["estimated_minutes"] <= 2
    assert all(seconds > 0 for timed in budget["step_seconds"].values() for seconds in timed.values())


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--ratios", "8,nine"], 2, "--ratios: 'nine' is no number"),
        (["--budget-flops", "1e10", "--budget-minutes", "3"], 2, "exclude each other"),
        (["--budget-minutes", "0"], 2, "--budget-minutes 0"),
        (["--budget-flops", "1e3", "--ratios", "12"], 2, "a run needs at least 20"),
        (["--jobs", "0"], 2, "--jobs"),
        (["--seeds", "0"], 2, "--seeds 0"),
        (["--seeds", "many"], 2, "--seeds"),
        (["--match", "width"], 2, "--match"),
        (["--residual", "prenorm", "--residual", "prenorm"], 2, "given twice"),
        (["--residual", "prenom"], 3, "prenom"),
        (["--set", "model.width=3"], 3, "width"),
        (["--name", "../outside", "--ratios", "12"], 3, "path separator"),
        (["--ratios", "100000"], 3, "less than one transformer block"),
    ],
)
def test_bad_input_is_a_sentence_and_an_exit_code(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", "depth-width", "./small.toml", *words]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert not Path("runs").exists()


def test_commands_on_sweeps_that_are_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["show", "x"], ["resume", "x"]):
        assert run(["sweep", *words]) == 3
        assert "There is no sweep 'x'" in capsys.readouterr().err
    assert run(["sweep", "ls"]) == 0
    captured = capsys.readouterr()
    assert "There are no sweeps in runs" in captured.err
    assert run(["sweep", "ls", "--json"]) == 0
    assert printed_json(capsys)["sweeps"] == []


# ---------------------------------------------------------------- a whole sweep


def test_a_sweep_runs_prints_reprints_and_grows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One training after the other, then reprinted from the file, asked for again, and grown by a cell."""
    assert run(["sweep", "depth-width", "./small.toml", *GRID, "--jobs", "1"]) == 0
    captured = capsys.readouterr()
    assert "Validation loss, prenorm" in captured.out
    assert "Δ loss, attnres-block − prenorm" in captured.out
    assert "↓" in captured.out
    assert "One seed and one learning rate per width" in captured.out
    assert "\x1b[" not in captured.out
    assert "r6 prenorm seed 0: validation loss" in captured.err
    manifest = RunDirectory(Path("runs/grid/r6-prenorm-s0")).manifest()
    assert manifest["preset_digest"] == json.loads(Path("runs/grid/sweep.json").read_text())["runs"][0]["digest"]

    assert run(["sweep", "show", "grid"]) == 0
    assert capsys.readouterr().out == captured.out
    assert run(["sweep", "ls"]) == 0
    assert "grid" in capsys.readouterr().out
    for suffix, words in (("md", "| --: |"), ("csv", "# cells")):
        assert run(["sweep", "show", "gr", "-o", f"sweep.{suffix}"]) == 0
        assert words in Path(f"sweep.{suffix}").read_text()
    capsys.readouterr()

    before = {path: path.stat().st_mtime_ns for path in Path("runs/grid").glob("*/metrics.jsonl")}
    assert (
        run(["sweep", "depth-width", "./small.toml", "--ratios", "32", "--name", "grid", "--jobs", "1", "--json"]) == 0
    )
    captured = capsys.readouterr()
    assert "note: sweep 'grid' keeps what it was asked for before: ratios 6, 12\n" in captured.err
    grown = json.loads(captured.out)
    assert set(losses(grown)) == {
        f"{cell}-{arm}" for cell in ("r6", "r12", "r32") for arm in ("prenorm", "attnres-block")
    }
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in before.items())

    assert run(["sweep", "depth-width", "./small.toml", *GRID, "--set", "train.seed=9"]) == 3
    assert "train.seed was 0 and is now 9" in capsys.readouterr().err


def test_a_run_that_diverges_is_a_row_and_the_sweep_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    write_preset("hot.toml", **{"train.learning_rate": 1e30, "train.grad_clip": 0.0})
    words = ["sweep", "depth-width", "./hot.toml", "--ratios", "12", "--name", "hot", "--jobs", "1", "--json"]
    assert run(words) == 4
    document = printed_json(capsys)
    assert [row["status"] for row in document["runs"]] == ["diverged", "diverged"]
    assert all("diverged" in row["error"] for row in document["runs"])
    assert document["lowest"]["compared_cells"] == 0
    assert run(["sweep", "show", "hot"]) == 0
    assert "!" in capsys.readouterr().out


def test_an_interrupted_sweep_goes_on_and_ends_where_it_would_have(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, against one that nobody interrupted; of two side by side, see test_train_group.py."""
    write_preset("one.toml", **ONE_BLOCK)
    words = ["sweep", "depth-width", "./one.toml", "--ratios", "16", "--jobs", "1"]
    assert run([*words, "--name", "whole", "--json"]) == 0
    whole = losses(printed_json(capsys))

    first = RunDirectory(Path("runs/cut/r16-prenorm-s0"))
    with monkeypatch.context() as patch:
        interrupt_this_process(patch, first.path, 2)
        assert run([*words, "--name", "cut"]) == 130
    errors = capsys.readouterr().err
    assert errors.splitlines()[-1] == "resume with: attnres sweep resume cut"
    assert "Traceback" not in errors
    document = json.loads(Path("runs/cut/sweep.json").read_text())
    assert document["status"] == "interrupted"
    assert document["runs"][0]["status"] == "interrupted"
    assert first.read_state()["step"] == 2
    assert first.checkpoints()

    assert run(["sweep", "resume", "cut", "--jobs", "1", "--json"]) == 0
    assert losses(printed_json(capsys)) == whole


def test_looking_at_sweeps_loads_no_torch() -> None:
    program = "import sys; from attnres_cli.cli.app import run; run(['sweep', 'ls']); print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.stdout.strip() == "False"
