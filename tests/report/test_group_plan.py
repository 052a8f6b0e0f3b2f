"""What a group's sweep file adds to a comparison, and that it may say anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.report.group_plan import Plan, planned_residuals, read_plan
from tests.fabricated_runs import BLOCK_SCHEME, RESOLVED
from tests.report.groups import BLOCK, baseline, block, comparison


def plan_of(root: Path, content: Any) -> Plan:
    runs = [*baseline(root, 2), *block(root, [0.1, 0.1])]
    (root / "sweep.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return read_plan([root, root], comparison(runs).arms)


def sweep(**changes: Any) -> dict[str, Any]:
    """A sweep of two arms and three seeds of which the third was added, and one run has not begun."""
    residuals = {"one": RESOLVED["residual"], "two": BLOCK_SCHEME}
    runs = [
        {"arm": arm, "seed": seed, "status": "planned" if (arm, seed) == ("two", 2) else "finished"}
        for arm in residuals
        for seed in range(3)
    ]
    return {
        "arms": [{"label": label, "residual": residual} for label, residual in residuals.items()],
        "seeds": [0, 1, 2], "planned_seeds": 2, "cells": [{"key": ""}], "runs": runs, **changes,
    }  # fmt: skip


def test_runs_that_have_not_begun_and_seeds_that_were_added(tmp_path: Path) -> None:
    assert plan_of(tmp_path, sweep()) == Plan({BLOCK: ("two seed 2 is planned and has not begun",)}, frozenset({2}))


def grid(**of_compared: Any) -> dict[str, Any]:
    """The sweep in two cells, the second of which has not begun; of_compared: what the first seed's runs in the first
    cell say of themselves."""
    content = sweep(cells=[{"key": "a"}, {"key": "b"}])
    first = [{**run, "cell": "a", **(of_compared if run["seed"] == 0 else {})} for run in content["runs"]]
    return {**content, "runs": [*first, *({**run, "cell": "b", "status": "planned"} for run in content["runs"])]}


def test_of_a_grid_the_compared_cell_is_waited_for_and_no_other(tmp_path: Path) -> None:
    """The digest that fabricated runs have says which cell they are."""
    assert plan_of(tmp_path, grid(digest="d" * 64)).waiting == {BLOCK: ("two seed 2 is planned and has not begun",)}


def test_a_grid_of_which_no_run_is_known_is_not_waited_for(tmp_path: Path) -> None:
    assert plan_of(tmp_path, grid(digest="of something else")).waiting == {}


def test_an_interrupted_run_is_waited_for_and_its_own_word_counts(tmp_path: Path) -> None:
    content = sweep()
    for run in content["runs"]:
        run["status"] = "interrupted" if run["seed"] == 1 and run["arm"] == "two" else "finished"
    assert plan_of(tmp_path / "a", content).waiting == {}, "it was finished by hand"
    runs = [*baseline(tmp_path / "b", 2), *block(tmp_path / "b", [0.1])]
    runs += block(tmp_path / "b", [0.1], seeds=[1], until_step=40, status="interrupted")
    (tmp_path / "b" / "sweep.json").write_text(json.dumps(content))
    waiting = read_plan([tmp_path / "b"], comparison(runs).arms).waiting
    assert waiting == {BLOCK: (f"{BLOCK}-s1 can go on (interrupted at step 40 of 100)",)}


def test_arms_stand_in_the_order_of_the_file(tmp_path: Path) -> None:
    plan_of(tmp_path, sweep())
    assert planned_residuals(tmp_path) == [RESOLVED["residual"], BLOCK_SCHEME]


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "{}", {"arms": 3, "runs": "x", "seeds": {}, "planned_seeds": None}, {"arms": [3], "runs": [None, {}]}],
)
def test_a_file_that_says_something_else_plans_nothing(tmp_path: Path, content: Any) -> None:
    assert plan_of(tmp_path, content) == Plan()


def test_the_engine_writes_what_is_read_here(tmp_path: Path) -> None:
    """The names of the fields, held together with those of the engine."""
    from attnres_cli.sweep.results import Arm, Run, Sweep, SweepDirectory

    assert SweepDirectory(tmp_path).file_path == tmp_path / "sweep.json"
    assert {"label", "residual"} <= set(Arm.__dataclass_fields__)
    assert {"arm", "seed", "status", "cell", "digest", "folder", "trial"} <= set(Run.__dataclass_fields__)
    assert {"arms", "runs", "seeds", "planned_seeds", "cells"} <= set(Sweep.__dataclass_fields__)
