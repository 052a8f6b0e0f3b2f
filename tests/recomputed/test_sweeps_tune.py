"""Every number of a tune is that of its runs' metrics.jsonl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attnres_cli.errors import ExitCode
from tests.recomputed import sweeps_arms, sweeps_tune
from tests.recomputed.harness import check_document
from tests.recomputed.sweeps_files import Files
from tests.recomputed.sweeps_lists import ORACLES as LISTS
from tests.recomputed.sweeps_material import Trainer, bowl, command, in_a_folder
from tests.recomputed.sweeps_payload import check_payload

TUNE = ["tune", "./small.toml", "--jobs", "1", "--name", "made", "--residual", "prenorm", "--residual", "attnres-full"]
SMALL: dict[str, Any] = {"train.horizon_tokens": 64 * 20, "train.learning_rate": 0.02}
ORACLES = {**LISTS, **sweeps_tune.ORACLES}


def check(capsys: pytest.CaptureFixture[str], plan: dict[str, Any], tables: set[str]) -> dict[str, Any]:
    files = Files(Path("runs/made"))
    shown = command(capsys, "sweep", "show", "made")
    check_document(shown, ORACLES, files, tables=tables)
    check_payload(shown, {"tuned": sweeps_tune.tuned_payload(files)})
    minutes = sum(sweeps_arms.seconds(files, *each.place) for each in files.everything) / 60
    check_payload(shown, {"price": {**sweeps_arms.price(files), "minutes": minutes}})
    rows = sweeps_tune.plan(files, plan["budget"])
    check_document(plan, {**ORACLES, "plan": lambda _: rows}, files, tables={"plan"})
    planned = {key: sum(row[key] for row in rows) for key in ("runs", "tokens", "flops")}
    check_payload(plan, {"price": {**planned, "minutes": sum(row["seconds"] for row in rows) / 60}})
    check_document(command(capsys, "sweep", "status", "made"), LISTS, files, tables={"runs"})
    return shown


def test_a_rate_with_several_seeds_one_of_which_diverged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    endings = {"lr0.04-prenorm-s1001": "diverged"}
    in_a_folder(tmp_path, monkeypatch, Trainer(bowl, endings), **SMALL)
    words = [*TUNE, "--residual", "attnres-block", "--seeds", "2", "--points", "5"]
    plan = command(capsys, *words, "--dry-run")
    command(capsys, *words)
    check(capsys, plan, {"best", "trials", "unfinished"})


def test_every_axis_and_a_shorter_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_a_folder(tmp_path, monkeypatch, Trainer(bowl, noise=0.03), **SMALL)
    words = [*TUNE, "--points", "3", "--weight-decay", "--query-lr-factor", "--horizon-fraction", "0.5"]
    plan = command(capsys, *words, "--dry-run")
    command(capsys, *words, code=ExitCode.THRESHOLD)
    check(capsys, plan, {"best", "trials"})


def test_many_arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    in_a_folder(tmp_path, monkeypatch, Trainer(bowl, noise=0.03), **SMALL)
    words = [*TUNE, "--points", "3"]
    words += [word for name in ("attnres-block", "denseformer", "rezero") for word in ("--residual", name)]
    plan = command(capsys, *words, "--dry-run")
    command(capsys, *words)
    check(capsys, plan, {"best", "trials"})
