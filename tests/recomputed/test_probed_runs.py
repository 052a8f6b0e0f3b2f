"""`attnres probe` on two models that were trained for a few steps: every number of every table, recomputed from the
arrays that the probes left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.train.loop import train
from tests.recomputed import probed_choices, probed_depths, probed_magnitudes, probed_runs
from tests.recomputed.harness import check_document, same
from tests.recomputed.probed_magnitudes import growth
from tests.recomputed.probed_runs import Probed
from tests.recomputed.raw import Run
from tests.small import small_preset

ORACLES = {**probed_runs.ORACLES, **probed_magnitudes.ORACLES, **probed_choices.ORACLES, **probed_depths.ORACLES}
STEPS = 20
TRAINING = {"train.checkpoint_every_steps": 20, "train.horizon_tokens": 64 * STEPS}
# Blocks, and steps between two observations: five of the one, four of the other.
SHAPES = {"plain": (4, 4), "block": (3, 5)}
KEYS = ("model.transformer_blocks", "observe.every_steps")
Said = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> list[Probed]:
    """Two that differ in depth, so that a column is shorter than another, probed by all probes."""
    root = tmp_path_factory.mktemp("probed") / "runs"
    residuals = {"plain": None, "block": {"scheme": "attnres-block", "num_blocks": 2}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNRES_CACHE", str(shared_cache))
        for name, residual in residuals.items():
            preset = small_preset(residual, **{**TRAINING, **dict(zip(KEYS, SHAPES[name], strict=True))})
            train(preset, RunDirectory.create(root, name, name))
        words = ["probe", "plain", "block", "--runs-dir", str(root), "-o", str(root / "said.json")]
        assert run(words) == 0
    return [Probed(letter, Run(root / name), STEPS) for letter, name in zip("AB", residuals, strict=True)]


def test_side_by_side(runs: list[Probed], said: Said) -> None:
    document = said("probe", "plain", "block", "--runs-dir", str(runs[0].run.path.parent))
    check_document(document, ORACLES, runs, tables=set(ORACLES) - {"sublayer_magnitudes"})


def test_one_run(runs: list[Probed], said: Said) -> None:
    document = said("probe", "block", "--runs-dir", str(runs[0].run.path.parent))
    check_document(document, ORACLES, [Probed("A", runs[1].run, STEPS)], tables=ORACLES)


def test_what_was_measured_now_is_what_is_read_later(runs: list[Probed]) -> None:
    document = json.loads((runs[0].run.path.parent / "said.json").read_text())
    check_document(document, ORACLES, runs)


def test_the_interval_of_the_growth_exponent(runs: list[Probed]) -> None:
    for each in runs:
        found = (each.summary("magnitudes") or {})["growth_exponent"]
        assert all(map(same, (found["estimate"], found["low"], found["high"]), growth(each)))
