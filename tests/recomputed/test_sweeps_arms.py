"""Every number of the sweeps that compare arms is that of their runs' metrics.jsonl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attnres_cli.errors import ExitCode
from tests.recomputed import sweeps_arms as oracles
from tests.recomputed.harness import check_document
from tests.recomputed.sweeps_arms import ORACLES
from tests.recomputed.sweeps_files import Files
from tests.recomputed.sweeps_lists import ORACLES as LISTS
from tests.recomputed.sweeps_lists import found
from tests.recomputed.sweeps_material import FAILED_LATE, Trainer, command, in_a_folder, power_law
from tests.recomputed.sweeps_payload import check_payload

FILES = Path("runs/made")
THREE = ["--residual", "prenorm", "--residual", "attnres-full", "--residual", "attnres-block"]
SMALL: dict[str, Any] = {"train.horizon_tokens": 64 * 20, "eval.every_steps": 10}
NAMED = ["--name", "made", "--jobs", "1"]


def check_all(
    capsys: pytest.CaptureFixture[str], plan: dict[str, Any], tables: set[str], by_loss: bool = False
) -> Files:
    """Of the sweep "made": what `show` and `status` print, and its plan from before the first run."""
    files = Files(FILES)
    first = oracles.arms_by_loss if by_loss else oracles.arms
    shown = command(capsys, "sweep", "show", "made")
    check_document(shown, {**ORACLES, **LISTS, "arms": first}, files, tables=tables)
    check_payload(shown, oracles.payload(files))
    rows = found(files)
    for said in (shown, files.document):
        check_payload({"runs": [{key: row[key] for key in rows[0]} for row in said["runs"]]}, {"runs": rows})
    check_document(plan, {**ORACLES, **LISTS}, files, tables={"plan"})
    minutes = sum(oracles.seconds(files, *each.place) for each in files.everything) / 60
    check_payload(shown, {"price": {**oracles.price(files), "minutes": minutes}})
    check_payload(plan, {"price": {**oracles.price(files), "minutes": minutes}})
    status = command(capsys, "sweep", "status", "made")
    check_document(status, LISTS, files, tables={"runs"})
    return files


def test_residual_schemes_with_runs_that_diverged_failed_and_were_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    endings = {"attnres-full-s1": "diverged", "prenorm-s3": FAILED_LATE, "attnres-block-s4": "interrupted"}
    in_a_folder(tmp_path, monkeypatch, Trainer(power_law, endings), **SMALL)
    words = ["sweep", "residuals", "./small.toml", *THREE, "--seeds", "5", *NAMED]
    plan = command(capsys, *words, "--dry-run")
    command(capsys, *words, code=ExitCode.INTERRUPTED)
    files = check_all(capsys, plan, {"arms", "unfinished"}, by_loss=True)
    assert [len(files.losses("", label)) for label in files.labels] == [4, 4, 4]


@pytest.mark.parametrize("seeds", ["1", "2"])
def test_few_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seeds: str
) -> None:
    in_a_folder(tmp_path, monkeypatch, Trainer(power_law), **SMALL)
    words = ["sweep", "residuals", "./small.toml", *THREE, "--seeds", seeds, *NAMED]
    plan = command(capsys, *words, "--dry-run")
    command(capsys, *words)
    check_all(capsys, plan, {"arms"}, by_loss=True)


def test_ablations_beside_the_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_a_folder(tmp_path, monkeypatch, Trainer(power_law), **SMALL)
    names = ("paper-full", "paper-block-4", "paper-block-8", "paper-denseformer")
    chosen = [word for name in names for word in ("--ablation", name)]
    words = ["sweep", "ablations", "./small.toml", *chosen, "--seeds", "3", *NAMED]
    plan = command(capsys, *words, "--dry-run")
    command(capsys, *words)
    check_all(capsys, plan, {"arms", "paper"}, by_loss=True)


def test_every_ablation_one_of_which_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A width of 20 has no sixteen heads."""
    in_a_folder(tmp_path, monkeypatch, Trainer(power_law), **SMALL, **{"model.d_model": 20})
    words = ["sweep", "ablations", "./small.toml", "--seeds", "1", *NAMED]
    plan = command(capsys, *words, "--dry-run")
    command(capsys, *words)
    files = check_all(capsys, plan, {"arms", "paper"}, by_loss=True)
    assert any("facts" in each for each in files.document["impossible"])
    rows = command(capsys, "sweep", "show", "made")["tables"]["paper"]["rows"]
    assert {row["arm"] for row in rows} == {name for name in oracles.PAPER if name.startswith("paper-")}


def test_block_sizes_beside_the_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_a_folder(tmp_path, monkeypatch, Trainer(power_law, {"size-2-s2": "diverged"}), **SMALL)
    words = ["sweep", "blocks", "./small.toml", "--sizes", "1,2,3,4,8", "--seeds", "3", *NAMED]
    plan = command(capsys, *words, "--dry-run")
    command(capsys, *words, code=ExitCode.DIVERGED)
    check_all(capsys, plan, {"arms", "paper", "unfinished"})


def test_every_step_deeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    in_a_folder(tmp_path, monkeypatch, Trainer(power_law, {"L3-attnres-full-s1": "diverged"}), **SMALL)
    words = ["sweep", "depth", "./small.toml", *THREE, "--blocks", "1,2,3,5", "--seeds", "3", *NAMED]
    plan = command(capsys, *words, "--dry-run")
    command(capsys, *words, code=ExitCode.DIVERGED)
    files = check_all(capsys, plan, {"arms", "steps", "unfinished"})
    shown = command(capsys, "sweep", "show", "made")
    check_payload(shown, {"steps": oracles.steps_payload(files)})


def test_a_grid_from_a_file_with_cells_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_a_folder(tmp_path, monkeypatch, Trainer(power_law), **SMALL)
    Path("grid.toml").write_text(
        'preset = "./small.toml"\narms = ["prenorm", { label = "two", scheme = "attnres-block", num_blocks = 2 }]\n'
        'seeds = 3\n[axes]\n"train.learning_rate" = [1e-3, 2e-3]\n"model.num_heads" = [1, 2, 3]\n'
    )
    words = ["sweep", "run", "grid.toml", *NAMED]
    plan = command(capsys, *words, "--dry-run")
    command(capsys, *words)
    check_all(capsys, plan, {"arms"})


def test_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    in_a_folder(tmp_path, monkeypatch, Trainer(power_law, {"attnres-full-s2": "failed"}), **SMALL)
    command(capsys, "train", "./small.toml", *THREE, "--seeds", "4", *NAMED, code=ExitCode.UNEXPECTED)
    shown = command(capsys, "sweep", "show", "made")
    check_document(shown, {**ORACLES, **LISTS}, Files(FILES), tables={"arms", "seeds", "unfinished"})
    check_payload(shown, oracles.payload(Files(FILES)))


def test_the_list_of_sweeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_a_folder(tmp_path, monkeypatch, Trainer(power_law, {"attnres-full-s1": "diverged", "L2-prenorm-s0": "failed"}))
    few = ["./small.toml", *THREE[:4], "--jobs", "1"]
    command(capsys, "sweep", "residuals", *few, "--seeds", "3", "--name", "one", code=ExitCode.DIVERGED)
    command(capsys, "sweep", "depth", *few, "--blocks", "1,2", "--name", "two", code=ExitCode.UNEXPECTED)
    command(capsys, "train", *few, "--seeds", "2", "--name", "three", code=ExitCode.DIVERGED)
    folders = sorted(path.parent for path in Path("runs").glob("*/sweep.json"))
    assert len(folders) == 3
    check_document(command(capsys, "sweep", "ls"), LISTS, folders, tables={"sweeps"})
