"""Every other kind of sweep through the program's entry point, with trainings of a fraction of a second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.preset.catalogue import entries
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.sweep import preparation
from attnres_cli.sweep.resolve import run_preset
from attnres_cli.sweep.results import SweepDirectory
from tests.small import small_preset


@pytest.fixture(autouse=True)
def _in_an_empty_folder_with_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    changes: dict[str, Any] = {
        "train.horizon_tokens": 64 * 6,
        "train.micro_batch_sequences": 4,
        "data.documents": 100,
        "observe.observers": ["magnitudes"],
    }
    Path("small.toml").write_text(small_preset(**changes).to_toml())  # 4 transformer blocks: 8 sublayers


@pytest.fixture
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step is timed, where nothing is said of the price."""
    monkeypatch.setattr(preparation, "step_seconds", lambda presets, *_: dict.fromkeys(presets, 0.01))


def printed_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def plan_of(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["sweep", *words, "--dry-run", "--json"]) == 0
    return printed_json(capsys)


def labels(document: dict[str, Any]) -> list[str]:
    return [arm["label"] for arm in document["arms"]]


# ---------------------------------------------------------------- plans


def test_every_plan_is_priced_in_tokens_flops_and_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["residuals", "./small.toml", "--residual", "prenorm", "--residual", "rezero", "--seeds", "3"]
    plan = plan_of(capsys, *words)
    assert plan["schema"] == "attnres.sweep-plan/1"
    per_token = [each["training_flops_per_token"] for each in plan["cells"][0]["facts"]["counts"].values()]
    assert plan["price"]["runs"] == len(plan["runs"]) == 6
    assert plan["price"]["tokens"] == 6 * 384
    assert plan["price"]["flops"] == pytest.approx(3 * 384 * sum(per_token))
    assert plan["price"]["minutes"] > 0
    assert not Path("runs").exists()
    assert run(["sweep", *words, "--dry-run"]) == 0
    assert "6 runs of 384 tokens (6 steps), 2.3k tokens and" in capsys.readouterr().out


@pytest.mark.usefixtures("untimed")
def test_residuals_are_all_schemes_against_the_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    from attnres_cli.discovery import names

    plan = plan_of(capsys, "residuals", "./small.toml")
    assert labels(plan)[0] == "prenorm"
    assert sorted(labels(plan)) == sorted(names("residual.schemes"))
    assert labels(plan_of(capsys, "residuals", "./small.toml", "--residual", "rezero")) == ["prenorm", "rezero"]


@pytest.mark.usefixtures("untimed")
def test_ablations_are_the_overlays_with_the_papers_losses(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(capsys, "ablations", "./small.toml", "--set", "model.d_model=20")  # 16 heads do not divide 20
    known = {entry.name for entry in entries("overlay") if entry.is_ablation}
    refused = {row["arm"]: row["reason"] for row in plan["impossible"]}
    assert {*labels(plan), *refused} == known
    assert labels(plan)[0] == "paper-baseline"
    assert "16" in refused["paper-block-4-heads-16"]
    assert "20" in refused["paper-block-4-heads-16"]
    full = next(arm for arm in plan["arms"] if arm["label"] == "paper-full")
    assert {"table": "Table 4", "row": "AttnRes Full", "validation_loss": 1.737} in full["facts"]["paper"]
    # S = 8 and N = 4 … are one preset on a model of another depth only where they are the same key.
    assert len({run["digest"] for run in plan["runs"]}) == len(plan["runs"])


@pytest.mark.usefixtures("untimed")
def test_blocks_are_the_sizes_up_to_all_sublayers(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(capsys, "blocks", "./small.toml")
    assert labels(plan) == ["paper-baseline", "size-1", "size-2", "size-4", "size-8"]
    by_label = {arm["label"]: arm for arm in plan["arms"]}
    assert [by_label[f"size-{size}"]["residual"]["block_sublayers"] for size in (1, 2, 4, 8)] == [1, 2, 4, 8]
    assert [by_label[f"size-{size}"]["facts"]["num_blocks"] for size in (1, 2, 4, 8)] == [8, 4, 2, 1]
    paper = {label: arm["facts"]["paper"][0]["validation_loss"] for label, arm in by_label.items()}
    assert paper == {"paper-baseline": 1.766, "size-1": 1.737, "size-2": 1.746, "size-4": 1.746, "size-8": 1.748}
    counted = plan_of(capsys, "blocks", "./small.toml", "--counts", "2,3")
    assert [arm["residual"].get("num_blocks") for arm in counted["arms"]] == [None, 2, 3]


@pytest.mark.usefixtures("untimed")
def test_depth_changes_the_number_of_blocks_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(capsys, "depth", "./small.toml", "--blocks", "1,2,6")
    assert [cell["coordinates"] for cell in plan["cells"]] == [{"transformer_blocks": blocks} for blocks in (1, 2, 6)]
    changes = {run["cell"]: run["changes"] for run in plan["runs"]}
    assert changes["L6"] == {"model.transformer_blocks": 6, "train.horizon_tokens": 384}
    flops = [cell["facts"]["counts"]["prenorm"]["training_flops_per_token"] for cell in plan["cells"]]
    assert flops == sorted(flops)


GRID = """
preset = "small.toml"
arms = ["prenorm", { label = "two", scheme = "attnres-block", num_blocks = 2 }]
seeds = 2

[axes]
"train.learning_rate" = [1e-3, 2e-3]
"model.num_heads" = [2, 3]
"""


@pytest.mark.usefixtures("untimed")
def test_a_file_defines_any_grid(capsys: pytest.CaptureFixture[str]) -> None:
    Path("grid.toml").write_text(GRID)
    plan = plan_of(capsys, "run", "grid.toml")
    assert [cell["key"] for cell in plan["cells"]] == ["learning_rate0.001-num_heads2", "learning_rate0.002-num_heads2"]
    assert labels(plan) == ["prenorm", "two"]
    assert plan["arms"][1]["residual"]["num_blocks"] == 2
    assert len(plan["runs"]) == 8
    refused = [(row["key"], row["arm"]) for row in plan["impossible"]]
    assert refused == [
        (f"learning_rate{rate}-num_heads3", arm) for rate in ("0.001", "0.002") for arm in ("prenorm", "two")
    ]
    assert "16" in plan["impossible"][0]["reason"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('preset = "small.toml"\nwidth = 3', "width"),
        ('preset = "small.toml"\n[axes]\n"modle.d_ff" = [1]', '"modle.d_ff" is no key of a preset'),
        ('preset = "small.toml"\n[axes]\n"model.d_ff" = []', "has no values"),
        ('preset = "small.toml"\n[axes]\n"model.d_ff" = [8, 8]', "a value twice"),
        ('preset = "small.toml"\n[axes]\n"train.seed" = [1, 2]', "runs pair by seed"),
        ('preset = "small.toml"\nbudget_minutes = 1\n[axes]\n"train.horizon_tokens" = [640]', "exclude each other"),
        ('preset = "small.toml"\narms = ["prenorm", "prenorm"]', "given twice"),
        ('preset = "small.toml"\narms = ["prenom"]', "prenom"),
        ('preset = "small.toml"\narms = [{ scheme = "prenorm" }]', "no label"),
        ('preset = "small.toml"\noverlays = ["paper-ful"]', "paper-ful"),
        ('preset = "no-such-preset"', "no-such-preset"),
        ('preset = "small.toml"\n[axes]\n"model.d_fff" = [8]', "d_fff"),
    ],
)
def test_a_file_that_is_no_grid_is_refused_with_the_fault(
    text: str, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("grid.toml").write_text(text)
    assert run(["sweep", "run", "grid.toml", "--dry-run"]) in (2, 3)
    captured = capsys.readouterr()
    assert fault in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["run", "nowhere.toml"], 3, "There is no file nowhere.toml"),
        (["blocks", "./small.toml", "--sizes", "4,9"], 2, "--sizes 9: the model has 8 sublayers"),
        (["blocks", "./small.toml", "--sizes", "2", "--counts", "2"], 2, "exclude each other"),
        (["blocks", "./small.toml", "--sizes", "1.5"], 2, "1.5 is no whole number"),
        (["ablations", "./small.toml", "--ablation", "paper-ful"], 3, "There is no ablation 'paper-ful'"),
        (["ablations", "./small.toml", "--ablation", "bf16"], 3, "There is no ablation 'bf16'"),
        (["residuals", "./small.toml", "--seeds", "0"], 2, "--seeds 0"),
        (["depth", "./small.toml", "--blocks", "0,2"], 2, "not positive"),
        (["residuals", "no-such-preset"], 3, "no-such-preset"),
    ],
)
def test_bad_input_is_a_sentence_and_an_exit_code(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", *words]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert not Path("runs").exists()


# ---------------------------------------------------------------- whole sweeps


@pytest.mark.usefixtures("untimed")
def test_arms_that_are_another_arm_on_so_small_a_model_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "ablations", "./small.toml", "--dry-run"]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: paper-")]
    assert {note.split(":")[1].strip() for note in notes} == {"paper-full-window-8", "paper-block-16", "paper-block-32"}
    assert any("residual.window = 8 leaves nothing out" in note for note in notes)


def test_ablations_stand_beside_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["ablations", "./small.toml", "--ablation", "paper-full", "--ablation", "paper-block-4-heads-16"]
    assert run(["sweep", *words, "--set", "model.d_model=20", "--name", "abl", "--jobs", "1"]) == 0
    captured = capsys.readouterr()
    table = captured.out.partition("Beside the paper")[2]
    row = next(line.split() for line in table.splitlines() if line.split()[:1] == ["paper-full"])
    assert row[2:4] == ["-0.029", "1.737"]
    document = json.loads(Path("runs/abl/sweep.json").read_text())
    losses = {run["arm"]: run["loss"] for run in document["runs"]}
    assert row[1] == f"{losses['paper-full'] - losses['paper-baseline']:+.4f}"
    refused = [line for line in table.splitlines() if line.split()[:1] == ["paper-block-4-heads-16"]]
    assert refused[0].split()[1:4] == ["—", "-0.014", "1.752"]
    assert "One seed: single runs without an interval" in captured.out
    assert "attnres compare abl" in captured.err
    assert run(["sweep", "show", "abl"]) == 0
    assert capsys.readouterr().out == captured.out


def test_a_grid_trains_every_cell_with_what_the_file_says(capsys: pytest.CaptureFixture[str]) -> None:
    Path("grid.toml").write_text(GRID)
    assert run(["sweep", "run", "grid.toml", "--name", "g", "--jobs", "1", "--json"]) == 0
    document = printed_json(capsys)
    assert document["schema"] == "attnres.sweep/2"
    assert {run["status"] for run in document["runs"]} == {"finished"}
    sweep = SweepDirectory(Path("runs/g")).read()
    for each in sweep.runs:
        resolved = RunDirectory(Path("runs/g") / str(each.folder)).resolved()
        assert resolved["train"]["seed"] == each.seed
        assert resolved["train"]["learning_rate"] == each.changes["train.learning_rate"]
        assert resolved["residual"]["scheme"] == ("attnres-block" if each.arm == "two" else "prenorm")
        assert run_preset(sweep, each).digest() == each.digest
    assert run(["sweep", "status", "g"]) == 0
    status = capsys.readouterr().out
    assert "8 finished" in status
    assert "learning_rate0.001-num_heads2-two-s1" in status


@pytest.mark.usefixtures("untimed")
def test_sizes_keep_the_proportions_and_the_tokens_per_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(capsys, "scaling", "./small.toml", "--sizes", "4,8,12", "--tokens-per-parameter", "0.5")
    shapes = [cell["facts"]["shape"] for cell in plan["cells"]]
    assert [(shape["transformer_blocks"], shape["d_model"], shape["num_heads"]) for shape in shapes] == [
        (4, 16, 2), (8, 32, 4), (12, 48, 6),
    ]  # fmt: skip
    assert [shape["d_ff"] for shape in shapes] == [24, 48, 72]
    for cell in plan["cells"]:
        parameters = cell["facts"]["counts"]["prenorm"]["non_embedding_parameters"]
        tokens = {run["planned_tokens"] for run in plan["runs"] if run["cell"] == cell["key"]}
        assert tokens == {64 * -(-parameters // 128)}
        width = cell["facts"]["shape"]["d_model"]
        assert cell["facts"]["learning_rate"] == pytest.approx(0.01 * 16 / width, rel=1e-3)
    for words, message in (
        (["--tokens-per-parameter", "0"], "has to be positive"),
        (["--tokens-per-parameter", "0.001"], "would train 1 step."),
    ):
        assert run(["sweep", "scaling", "./small.toml", *words]) == 2
        assert message in capsys.readouterr().err


def test_showing_a_sweep_loads_no_torch(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.cli.starting import loaded_by
    from tests.fabricated_sweep import arms_document

    folder = Path("runs/fabricated")
    folder.mkdir(parents=True)
    document = arms_document({"plain": [2.0, 2.1, 1.9], "a": [1.9, 2.0, 1.8]}, kind="group", report="group")
    (folder / "sweep.json").write_text(json.dumps(document))
    for command in ("show", "status"):
        assert "torch" not in loaded_by("sweep", command, "fabricated", cwd=Path.cwd())
