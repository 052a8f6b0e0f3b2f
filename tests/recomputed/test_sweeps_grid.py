"""Every number of a depth-width sweep is that of its runs' metrics.jsonl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attnres_cli.errors import ExitCode
from tests.recomputed import sweeps_arms, sweeps_grid, sweeps_optimum
from tests.recomputed.harness import check_document
from tests.recomputed.sweeps_files import Files
from tests.recomputed.sweeps_lists import ORACLES as LISTS
from tests.recomputed.sweeps_material import Trainer, bowl, command, in_a_folder
from tests.recomputed.sweeps_payload import check_payload

MODEL: dict[str, Any] = {
    "model.transformer_blocks": 8, "model.d_model": 64, "model.num_heads": 4, "model.d_ff": 96,
    "train.horizon_tokens": 64 * 20, "train.learning_rate": 5e-3,
}  # fmt: skip
SWEEP = ["sweep", "depth-width", "./small.toml", "--residual", "prenorm", "--residual", "attnres-full", "--jobs", "1",
         "--name", "made"]  # fmt: skip
# The program looks for the ends of the interval at 4001 places of a row that is less than a factor of ten long.
ENDS = {"low": 1e-3, "high": 1e-3}


def check(capsys: pytest.CaptureFixture[str], plan: dict[str, Any], tables: set[str]) -> Files:
    files = Files(Path("runs/made"))
    oracles = {**LISTS, **sweeps_optimum.ORACLES, **sweeps_grid.oracles_of(files)}
    shown = command(capsys, "sweep", "show", "made")
    check_document(shown, oracles, files, tables=tables | {"cells"} | {f"loss_{label}" for label in files.labels})
    minutes = sum(sweeps_arms.seconds(files, *each.place) for each in files.everything) / 60
    price = {"price": {**sweeps_arms.price(files), "minutes": minutes}}
    check_payload(shown, {**price, "lowest": sweeps_grid.lowest(files)})
    check_payload(shown, {"differences": sweeps_grid.expected_differences(files)})
    check_payload(shown, {"optimum": sweeps_optimum.optimum_payload(files)}, wider=ENDS)
    for label, (cell, is_shown) in sweeps_grid.lowest_in_words(files).items():
        said = shown["lowest"]["arms"][label]
        assert (said["cell"], said["shown"]) == (cell, is_shown)
    check_document(plan, oracles, files, tables={"cells"})
    check_payload(plan, price)
    return files


def test_one_row_with_a_cell_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_a_folder(tmp_path, monkeypatch, Trainer(bowl), **MODEL)
    words = [*SWEEP, "--ratios", "3,5.3,8,11,16,500", "--seeds", "3"]
    plan = command(capsys, *words, "--dry-run")
    command(capsys, *words)
    files = check(capsys, plan, {"optimum", "impossible"})
    assert all(each["shift"] for each in sweeps_optimum.optimum_payload(files)[1:]), "optima inside the row"


def test_a_grid_with_an_axis_of_heads_and_lost_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    endings = {"r4-h0.75-attnres-full-s1": "diverged", "r6-h0.5-prenorm-s0": "failed"}
    in_a_folder(tmp_path, monkeypatch, Trainer(bowl, endings), **MODEL)
    words = [*SWEEP, "--ratios", "4,6,8,11,16", "--head-ratios", "0.5,0.75", "--seeds", "3", "--match", "flops"]
    plan = command(capsys, *words, "--dry-run")
    command(capsys, *words, code=ExitCode.UNEXPECTED)
    check(capsys, plan, {"optimum", "unfinished", "difference_attnres-full"})


def test_a_learning_rate_per_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    endings = {"r8-prenorm-lr0.007071-s1000": "diverged"}
    in_a_folder(tmp_path, monkeypatch, Trainer(bowl, endings), **MODEL)
    words = [*SWEEP, "--ratios", "5.3,8", "--seeds", "2", "--tune-rates", "3"]
    plan = command(capsys, *words, "--dry-run")
    command(capsys, *words)
    files = check(capsys, plan, {"rates"})
    check_payload(command(capsys, "sweep", "show", "made"), {"rates": sweeps_grid.rates_payload(files)})
    check_document(command(capsys, "sweep", "status", "made"), LISTS, files, tables={"runs"})
