"""`attnres compare` of the runs of a frozen study, and of runs so long that their numbers are cached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.runs.directory import RunDirectory
from tests.recomputed import compared_groups, compared_runs, configuration, inside_models
from tests.recomputed.arms import Arm, Compared
from tests.recomputed.beside_tables import check_figures
from tests.recomputed.harness import check_document
from tests.recomputed.material import groups, scattered_run
from tests.report.groups import planned_by_a_study

ORACLES = {**configuration.ORACLES, **inside_models.ORACLES, **compared_groups.ORACLES}
BETTER_BY = {
    "prenorm": [0.0] * 5,
    "attnres-block": [0.051, 0.062, 0.045, 0.055, 0.052],
    "attnres-full": [0.04, 0.02, 0.05, 0.03, 0.02],
}
Said = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("planned_seeds", [5, 3])
def test_a_study(planned_seeds: int, tmp_path: Path, said: Said) -> None:
    """The figures of a plan's runs are those of any others; runs beyond the plan make them exploratory."""
    group = tmp_path / "runs" / "group"
    material = groups(tmp_path / "runs", BETTER_BY)
    runs = [RunDirectory(run.path) for run in material.runs]
    planned_by_a_study(group, runs, seeds=range(planned_seeds), tuning=(4, 4, 4))
    document = said("compare", "group", "--no-bench")
    check_document(document, ORACLES, material, tables=("runs", "verdict", "loss"))
    check_figures(document, material)
    assert [each["exploratory"] for each in document["verdicts"]] == [planned_seeds < 5] * 2
    assert [arm["tuning_runs"] for arm in document["arms"]] == [4, 4, 4]


def test_another_arm_is_the_baseline(tmp_path: Path, said: Said) -> None:
    material = groups(tmp_path / "runs", BETTER_BY)
    document = said("compare", "group", "--no-bench", "--baseline", "attnres-full")
    material = Compared(material.arms, "attnres-full")
    check_document(document, ORACLES, material, tables=("runs", "verdict", "loss"))
    check_figures(document, material)


def test_long_runs_and_their_cache(tmp_path: Path, said: Said) -> None:
    """A long run leaves its numbers as columns at its end; they are read from there."""
    root = tmp_path / "runs"
    often = {"train.log_every_steps": 1, "eval.every_steps": 10, "train.horizon_tokens": 32_000}
    plain = scattered_run(root, "plain", change=often, steps=1000)
    mixing = scattered_run(root, "mixing", scheme="attnres-block", better_by=0.04, change=often, steps=1000)
    material = Compared((Arm("A", "A prenorm", (plain,)), Arm("B", "B attnres-block", (mixing,))), "A")
    for run in (plain, mixing):
        RunDirectory(run.path).keep_columns()
        assert (run.path / ".metrics.npz").exists(), "the run is not long enough for a cache"
    document = said("compare", "plain", "mixing", "--no-bench")
    check_document(document, {**ORACLES, **compared_runs.ORACLES}, material, tables=("loss",))
    check_figures(document, material)
