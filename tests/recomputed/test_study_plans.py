"""`attnres study`: every number of its tables, recomputed from the plans and from the runs of their groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnres_cli.errors import ExitCode
from tests.recomputed import study_plans, sweeps_material
from tests.recomputed.harness import as_table, check_document, faults_of, flat
from tests.recomputed.sweeps_material import Trainer, command

SIZE = {"model.transformer_blocks": 2, "train.horizon_tokens": 64 * 6, "eval.every_steps": 0}
ARMS = {"first": "prenorm,attnres-full", "second": "prenorm,attnres-full,attnres-block"}


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[Path]:
    """Two plans: of the first all is trained, but for one run that diverged, and two seeds more."""
    endings = {"attnres-full-s1": "diverged"}
    sweeps_material.in_a_folder(tmp_path, monkeypatch, Trainer(sweeps_material.power_law, endings), **SIZE)
    for seeds, (name, arms) in enumerate(ARMS.items(), start=3):
        new = ["study", "new", "./small.toml", "--arms", arms, "--seeds", str(seeds), "--name", name]
        command(capsys, *new, "--sd", f"0.00{seeds}", "--smallest-effect", "0.007")
    files = [tmp_path / "studies" / f"{name}.toml" for name in ARMS]
    _tuned(files[0])
    command(capsys, "study", "run", "first", "--seeds", "5", code=ExitCode.DIVERGED)
    return files


def _tuned(file: Path) -> None:
    """As if the second arm had been tuned: a learning rate of its own, and how it came to it."""
    before, arm, after = file.read_text().partition('label = "attnres-full"\n')
    after = after.replace("{trials = 0, seeds = 0}", '{tune = "rates", trials = 7, seeds = 2}', 1)
    after = after.replace("[arms.changes]\n", '[arms.changes]\n"train.learning_rate" = 0.00234\n', 1)
    file.write_text(before + arm + after)


def test_the_list(plans: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    check_document(command(capsys, "study", "ls"), study_plans.ORACLES, plans, tables=["studies"])


@pytest.mark.parametrize("place", [0, 1])
def test_one_plan(place: int, plans: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    document = command(capsys, "study", "show", list(ARMS)[place])
    check_document(document, study_plans.ORACLES, [plans[place]], tables=["arms"])
    expected = study_plans.what_it_can_show(plans[place])
    faults = faults_of("power", as_table([flat(document["power"])]), [expected], {})
    assert not faults, "\n".join(faults)
