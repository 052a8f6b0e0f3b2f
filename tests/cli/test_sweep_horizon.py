"""`attnres sweep horizon` through the program's entry point, with trainings of a fraction of a second."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.preset.reading import load_preset
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.sweep.results import SweepDirectory
from attnres_cli.train.loop import train
from tests.cli.interrupting import interrupt_this_process
from tests.cli.made_once import Made, made
from tests.small import small_preset
from tests.train.test_branching import assert_same_run

STEPS = 20
SWEEP = ["sweep", "horizon", "./small.toml", "--residual", "prenorm", "--residual", "attnres-full", "--jobs", "1"]
LADDER = [*SWEEP, "--horizons", "0.5,1,2", "--name", "ladder"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder_with_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(preset_text())


@pytest.fixture(scope="module")
def shorter(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Made:
    """A ladder of two rungs with one seed."""
    folder = tmp_path_factory.mktemp("ladder")
    (folder / "small.toml").write_text(preset_text())
    return made([*SWEEP, "--horizons", "0.5,1", "--name", "ladder", "--seeds", "1"], folder, shared_cache)


def preset_text(**changes: Any) -> str:
    usual = {
        "model.transformer_blocks": 1,
        "train.horizon_tokens": STEPS * 64,
        "train.micro_batch_sequences": 4,
        "data.documents": 100,
        "train.warmup_fraction": 0.1,
        "observe.observers": ["magnitudes"],
    }
    return small_preset(**{**usual, **changes}).to_toml()


def printed_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def ladder_run(name: str) -> RunDirectory:
    return RunDirectory(Path("runs/ladder") / name)


def test_a_dry_run_prices_the_ladder_and_makes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*LADDER, "--seeds", "3", "--dry-run"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    # 10, 20 and 40 steps with a fifth of decay; 8 and 16 of them are shared.
    assert "saves 34% of the steps" in text
    assert "18 runs" in text
    assert f"{6 * (10 + 12 + 24) * 64 / 1000:.3g}k tokens" in text
    assert re.search(r"about [0-9.]+(ms|s|m|h)\b.* here", text)
    assert not Path("runs").exists()
    assert run([*LADDER, "--seeds", "3", "--dry-run", "--json"]) == 0
    document = printed_json(capsys)
    rungs = {cell["key"]: cell["facts"] for cell in document["cells"]}
    assert {key: (facts["steps"], facts["trained_steps"]) for key, facts in rungs.items()} == {
        "x0.5": (10, 10),
        "x1": (20, 12),
        "x2": (40, 24),
    }
    assert document["price"]["tokens"] == 6 * (10 + 12 + 24) * 64
    per_token = {label: counts["training_flops_per_token"] for label, counts in rungs["x1"]["counts"].items()}
    assert document["price"]["flops"] == pytest.approx(sum(per_token.values()) * 3 * (10 + 12 + 24) * 64)


def test_every_rung_is_the_run_from_scratch_and_the_tables_are_made_of_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run([*LADDER, "--seeds", "2", "--json"]) == 0
    document = printed_json(capsys)
    assert len(document["runs"]) == 12
    assert {each["status"] for each in document["runs"]} == {"finished"}

    # One of them against a training of its own.
    preset = load_preset(
        "./small.toml",
        residual="attnres-full",
        sets=[
            "train.schedule='wsd'", f"train.horizon_tokens={40 * 64}", f"train.warmup_fraction={2 / 40}", "train.seed=1"
        ],
    )  # fmt: skip
    scratch = RunDirectory.create(tmp_path, "scratch")
    train(preset, scratch)
    assert_same_run(ladder_run("x2-attnres-full-s1"), scratch)

    # Where each begins, and that it says so.
    for name, trunk, step in (("x1", "x0.5", 8), ("x2", "x1", 16)):
        rung = ladder_run(f"{name}-prenorm-s0")
        came_from = rung.manifest()["branched_from"]
        assert (came_from["run"], came_from["step"]) == (f"{trunk}-prenorm-s0", step)
    assert "branched_from" not in ladder_run("x0.5-prenorm-s0").manifest()

    # Every number of the document is that of metrics.jsonl.
    of_run = {
        (each["cell"], each["arm"], each["seed"]): ladder_run(each["folder"]).evaluations()[-1]["loss"]
        for each in document["runs"]
    }
    for found in document["differences"]:
        deltas = [
            of_run[found["cell"], found["arm"], seed] - of_run[found["cell"], "prenorm", seed] for seed in range(2)
        ]
        assert found["mean"] == pytest.approx(sum(deltas) / 2, rel=1e-12)
        assert found["pairs"] == 2
        assert found["low"] < found["mean"] < found["high"]
    assert [found["cell"] for found in document["differences"]] == ["x0.5", "x1", "x2"]
    assert {found["cell"] for found in document["multipliers"]} == {"x0.5", "x1", "x2"}

    # And printed again, without training anything.
    assert run(["sweep", "show", "ladder"]) == 0
    text = capsys.readouterr().out
    for words in (
        "Loss by horizon",
        "Δ loss by horizon",
        "Compute multiplier",
        "With every doubling of the tokens",
        "±",
    ):
        assert words in text
    assert run([*LADDER, "--seeds", "2"]) == 0
    assert "nothing left to train" in capsys.readouterr().err


def test_a_ladder_grows_from_where_it_ends_and_one_seed_says_so(
    shorter: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shorter.code == 0, shorter.err
    shorter.copy_to(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in Path("runs/ladder").glob("x*/metrics.jsonl")}
    assert run([*LADDER, "--seeds", "1"]) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(before) == 4
    assert ladder_run("x2-attnres-full-s0").manifest()["branched_from"]["run"] == "x1-attnres-full-s0"
    text = capsys.readouterr().out
    assert "one seed, so no interval" in text
    assert "One seed: single runs without an interval, and no verdict." in text
    assert "±" not in text
    assert run([*SWEEP, "--horizons", "2", "--name", "ladder", "--set", "train.learning_rate=1e-3"]) == 3
    assert "train.learning_rate was 0.01 and is now 0.001" in capsys.readouterr().err


def test_a_rung_whose_predecessor_is_gone_is_trained_from_the_start(shorter: Made) -> None:
    one = ["sweep", "horizon", "./small.toml", "--residual", "prenorm", "--jobs", "1", "--seeds", "1"]
    parts = [*one, "--name", "ladder"]
    assert run([*parts, "--horizons", "0.5"]) == 0
    shutil.rmtree(ladder_run("x0.5-prenorm-s0").path)
    assert run([*parts, "--horizons", "0.5,1"]) == 0
    rung = ladder_run("x1-prenorm-s0")
    assert "branched_from" not in rung.manifest()
    assert_same_run(rung, RunDirectory(shorter.folder / "runs/ladder/x1-prenorm-s0"))


def test_what_diverges_is_a_row_and_so_is_what_would_have_left_it(capsys: pytest.CaptureFixture[str]) -> None:
    # Without clipping a rate like this leaves no finite number after the first step.
    wild = ["--set", "train.learning_rate=1e30", "--set", "train.grad_clip=0.0", "--seeds", "1"]
    assert run([*LADDER, *wild]) == 1
    sweep = SweepDirectory(Path("runs/ladder")).read()
    statuses = {(each.cell, each.arm): (each.status, each.error) for each in sweep.runs}
    assert statuses["x0.5", "prenorm"][0] == "diverged"
    assert statuses["x1", "prenorm"][0] == "failed"
    assert "x0.5-prenorm-s0, which diverged" in (statuses["x1", "prenorm"][1] or "")
    assert "x0.5-prenorm-s0, which diverged" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--horizons", "0,1"], "'0' is not positive and finite"),
        (["--horizons", "1,1.01"], "Horizons 1 and 1.01 are both 20 steps"),
        (["--horizons", "0.1,1"], "At 0.1 × the tokens 2 steps are left: 2 of warm-up and 1 of decay do not fit"),
        (["--seeds", "0"], "--seeds 0"),
    ],
)
def test_wrong_ladders_are_refused(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SWEEP, *words]) in (2, 3)
    assert complaint in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not Path("runs").exists()


def test_an_interrupted_branch_is_resumed_to_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of the second rung, which begins after step 8; then `sweep resume`."""
    only = ["sweep", "horizon", "./small.toml", "--residual", "prenorm", "--jobs", "1"]
    rung = ladder_run("x1-prenorm-s0")
    with monkeypatch.context() as patch:
        interrupt_this_process(patch, rung.path, 12)
        assert run([*only, "--horizons", "0.5,1", "--seeds", "1", "--name", "ladder"]) == 130
    assert rung.read_state()["step"] == 12
    assert rung.manifest()["branched_from"]["step"] == 8
    assert rung.status == "interrupted"
    assert run(["sweep", "resume", "ladder", "--jobs", "1"]) == 0
    assert rung.status == "finished"
    preset = load_preset("./small.toml", residual="prenorm", sets=["train.schedule='wsd'"])
    scratch = RunDirectory.create(tmp_path, "scratch")
    train(preset, scratch)
    assert_same_run(rung, scratch)
