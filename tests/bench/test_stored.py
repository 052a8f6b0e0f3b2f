"""The bench that belongs to a comparison: which runs share an arm, when it is measured, and what it is stored under."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.bench import stored
from attnres_cli.errors import UserError
from attnres_cli.runs.directory import RunDirectory
from tests.cli.test_compare import TINY, TINY_BLOCK
from tests.fabricated_runs import fabricate


def tiny(root: Path, name: str, **others: Any) -> RunDirectory:
    return fabricate(root, name, **{"change": TINY, **others})


def test_runs_that_cost_the_same_share_an_arm(tmp_path: Path) -> None:
    same = {
        **TINY,
        "train.seed": 9,
        "train.learning_rate": 0.1,
        "train.weight_decay": 0.0,
        "data.undecodable": "strict",
    }
    first, again = tiny(tmp_path, "a"), tiny(tmp_path, "b", change=same)
    assert stored.cost_of_step(first) == stored.cost_of_step(again) is not None


@pytest.mark.parametrize(
    "others",
    [
        {"change": {**TINY, "model.d_model": 32}},
        {"change": {**TINY, "train.micro_batch_sequences": 2}},
        {"change": {**TINY, "train.precision": "bf16"}},
        {"residual": TINY_BLOCK},
        {"manifest": {"data.vocab_size": 4096}},
    ],
)
def test_runs_that_may_cost_something_else_do_not(tmp_path: Path, others: dict[str, Any]) -> None:
    assert stored.cost_of_step(tiny(tmp_path, "a")) != stored.cost_of_step(tiny(tmp_path, "b", **others))


def test_a_learning_rate_factor_costs_nothing(tmp_path: Path) -> None:
    a, b = (
        tiny(tmp_path, name, residual={**TINY_BLOCK, "query_lr_factor": factor})
        for name, factor in (("a", 1.0), ("b", 3.0))
    )
    assert stored.cost_of_step(a) == stored.cost_of_step(b)


@pytest.mark.parametrize("manifest", ["{", "{}", '{"data": 3}'])
def test_a_run_that_says_nothing_has_no_cost(tmp_path: Path, manifest: str) -> None:
    run = tiny(tmp_path, "a")
    run.manifest_path.write_text(manifest)
    assert stored.cost_of_step(run) is None


def test_a_bench_needs_a_readable_baseline_and_two_runs(tmp_path: Path) -> None:
    good, broken = tiny(tmp_path, "good"), tiny(tmp_path, "broken")
    broken.manifest_path.write_text("{")
    with pytest.raises(UserError, match="baseline cannot be read"):
        stored.bench_of_runs([broken, good], root=tmp_path)
    with pytest.raises(UserError, match="fewer than two"):
        stored.bench_of_runs([good, broken], root=tmp_path)


def test_a_stored_file_that_cannot_be_used_is_measured_again(tmp_path: Path) -> None:
    runs = [tiny(tmp_path, "a"), tiny(tmp_path, "b", residual=TINY_BLOCK)]
    expected: list[float | None] = []
    first = stored.bench_of_runs(runs, root=tmp_path, before_measuring=expected.append)
    assert first.measured_now
    # Both trainings logged 0.05 s a step; 7 rounds and 3 steps off the clock of two arms.
    assert expected == [pytest.approx(10 * 2 * 0.05)]
    [path] = (tmp_path / ".bench").iterdir()
    for content in ("{", json.dumps({**json.loads(path.read_text()), "machine": {"host": "another"}})):
        path.write_text(content)
        assert stored.bench_of_runs(runs, root=tmp_path).measured_now
    assert not stored.bench_of_runs(runs, root=tmp_path).measured_now


@pytest.mark.parametrize(("step_seconds", "rounds"), [(0.01, 7), (5.0, 6), (9.0, 3), (100.0, 3)])
def test_slow_steps_get_fewer_rounds(tmp_path: Path, step_seconds: float, rounds: int) -> None:
    runs = [tiny(tmp_path, name) for name in "ab"]
    for run in runs:
        run.append_metric({"kind": "train", "step": 1000, "step_seconds": step_seconds})
    arms = {run.name: stored._Arm(run, {}) for run in runs}
    assert stored._affordable_rounds(arms) == (rounds, pytest.approx((rounds + 3) * 2 * step_seconds))
