"""Every number of a study is that of its plan's file, of the tune that chose its rates, and of its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attnres_cli.errors import ExitCode
from tests.recomputed import sweeps_arms, sweeps_studies
from tests.recomputed.harness import check_document
from tests.recomputed.statistics import deviation
from tests.recomputed.sweeps_files import Files
from tests.recomputed.sweeps_lists import ORACLES as LISTS
from tests.recomputed.sweeps_material import Trainer, bowl, command, in_a_folder
from tests.recomputed.sweeps_payload import check_payload
from tests.recomputed.sweeps_studies import ORACLES, Study

SMALL: dict[str, Any] = {"train.horizon_tokens": 64 * 20, "train.learning_rate": 0.02}
NEW = ["study", "new", "./small.toml", "--name", "made", "--seeds", "4", "--smallest-effect", "0.02"]
RUN = ["study", "run", "made", "--jobs", "1"]
# The program halves an interval sixty times; the oracle solves.
POWER = {"smallest_shown": 1e-7}


def check(capsys: pytest.CaptureFixture[str], new: dict[str, Any], tunes: dict[str, Files | None]) -> Study:
    plan, files = sweeps_studies.read(Path("studies/made.toml")), Files(Path("runs/made"))
    study = Study(plan, files, tunes)
    before = Study(plan, files, tunes, is_run=False)
    oracles = {"arms": lambda _: sweeps_studies.arms(before), "plan": lambda _: _planned(study)}
    check_document(new, oracles, study, tables={"arms", "plan"})
    check_payload(new, {"price": _price(_planned(study))})
    check_payload(new, {"power": sweeps_studies.power_payload(plan)}, wider=POWER)
    shown = command(capsys, "study", "show", "made")
    check_document(shown, ORACLES, study, tables={"arms"})
    check_payload(shown, {"power": sweeps_studies.power_payload(plan)}, wider=POWER)
    assert shown["hash"] == sweeps_studies.hash_of(plan) == new["hash"]
    group = command(capsys, "sweep", "show", "made")
    check_document(group, {**sweeps_arms.ORACLES, **LISTS}, files, tables={"arms", "seeds"})
    check_payload(group, sweeps_arms.payload(files))
    listed = command(capsys, "study", "ls")
    check_document(listed, ORACLES, [plan], tables={"studies"})
    return study


def _planned(study: Study) -> list[dict[str, Any]]:
    """Without the seeds that came later."""
    return [{**row, "runs": len(study.plan["seeds"])} for row in sweeps_arms.plan(study.group)]


def _price(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {
        "runs": sum(row["runs"] for row in rows),
        "tokens": sum(row["runs"] * row["tokens"] for row in rows),
        "flops": sum(row["runs"] * row["tokens"] * row["training_flops_per_token"] for row in rows),
        "minutes": sum(row["runs"] * row["seconds"] for row in rows) / 60,
    }


def test_a_study_with_a_seed_beyond_its_plan_and_a_lost_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_a_folder(tmp_path, monkeypatch, Trainer(bowl, {"attnres-full-s1": "diverged"}), **SMALL)
    new = command(capsys, *NEW, "--arms", "prenorm,attnres-full,attnres-block", "--sd", "0.017")
    command(capsys, *RUN, "--seeds", "5", code=ExitCode.DIVERGED)
    study = check(capsys, new, {})
    assert len(study.group.seeds) == 5
    assert [row["done"] for row in sweeps_studies.arms(study)] == [4, 3, 4]


def test_a_study_of_tuned_arms_with_the_spread_of_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_a_folder(tmp_path, monkeypatch, Trainer(bowl), **SMALL)
    two = ["--residual", "prenorm", "--residual", "attnres-full", "--jobs", "1"]
    command(capsys, "tune", "./small.toml", *two, "--points", "3", "--name", "rates")
    command(capsys, "train", "./small.toml", *two, "--residual", "attnres-block", "--seeds", "3", "--name", "pilot")
    arms = "tuned-small-prenorm,tuned-small-attnres-full"
    new = command(capsys, *NEW, "--arms", arms, "--sd-from", "pilot")
    pilot = Files(Path("runs/pilot"))
    spreads = []
    for label in pilot.labels[1:]:
        ours, theirs = pilot.losses("", label), pilot.losses("", pilot.reference)
        spreads.append(deviation([ours[seed] - theirs[seed] for seed in pilot.seeds]))
    assert new["power"]["standard_deviation"] == pytest.approx(max(spreads), rel=1e-9)
    command(capsys, *RUN)
    tune = Files(Path("runs/rates"))
    study = check(capsys, new, dict.fromkeys(arms.split(","), tune))
    assert [row["trials"] for row in sweeps_studies.arms(study)] == [5, 5]
