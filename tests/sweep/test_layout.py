"""Points × arms × seeds → runs, over tiny models on the meta device."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.errors import UserError
from attnres_cli.preset.catalogue import Entry
from attnres_cli.preset.preset import Preset
from attnres_cli.sweep.arms import Source, overlay_arm
from attnres_cli.sweep.budget import FEWEST_STEPS, Budget, wall_seconds
from attnres_cli.sweep.calibration import standing_still, step_seconds
from attnres_cli.sweep.execution import Slot
from attnres_cli.sweep.layout import Context, Point, lay_out
from attnres_cli.sweep.request import Request
from attnres_cli.sweep.resolve import run_preset
from attnres_cli.sweep.results import Arm, Sweep
from tests.small import small_preset

VOCAB_SIZE = 31
PRESET = small_preset(**{"train.horizon_tokens": 64 * 30, "eval.every_steps": 0})
PLAIN, FULL = Arm("plain", {"scheme": "prenorm"}), Arm("full", {"scheme": "attnres-full"})


def laid_out(
    points: Sequence[Point], arms: Sequence[Arm] = (PLAIN, FULL), calibrate: Any = None, **changes: Any
) -> Sweep:
    request = Request("grid", PRESET, tuple(arms), **changes)
    return lay_out(request, Context("s", "attnres", VOCAB_SIZE, 2, calibrate), points, report="arms")


def depth(blocks: int, **more: Any) -> Point:
    return Point(f"L{blocks}", {"blocks": blocks}, {"model.transformer_blocks": blocks}, **more)


def test_every_point_with_every_arm_and_seed_is_one_run_whose_preset_the_file_gives() -> None:
    sweep = laid_out([depth(1), depth(2)], seeds=2)
    assert [(run.cell, run.arm, run.seed) for run in sweep.runs] == [
        (cell, arm, seed) for cell in ("L1", "L2") for arm in ("plain", "full") for seed in (0, 1)
    ]
    again = Sweep.from_dict(json.loads(json.dumps(sweep.to_dict())))
    for run in again.runs:
        preset = run_preset(again, run)
        assert preset.digest() == run.digest
        assert (preset.train.seed, preset.model.transformer_blocks) == (run.seed, int(run.cell[1:]))
    assert {run.name for run in sweep.runs} >= {"L1-plain-s0", "L2-full-s1"}


def test_an_arm_that_does_not_fit_a_point_is_a_row_and_the_others_are_trained() -> None:
    many = Arm("many", {"scheme": "attnres-block", "num_blocks": 5})
    sweep = laid_out([depth(2), depth(3)], [PLAIN, many])
    assert [(row["key"], row["arm"]) for row in sweep.impossible] == [("L2", "many")]
    assert "num_blocks = 5 is more than the model's 4 sublayers" in sweep.impossible[0]["reason"]
    assert [(run.cell, run.arm) for run in sweep.runs] == [("L2", "plain"), ("L3", "plain"), ("L3", "many")]


def test_nothing_that_fits_is_an_error_with_every_reason() -> None:
    many = Arm("many", {"scheme": "attnres-block", "num_blocks": 9})
    with pytest.raises(UserError) as caught:
        laid_out([depth(2), depth(3)], [many])
    assert [fault.what.split(" is ")[0] for fault in caught.value.faults] == ["Cell L2 arm many", "Cell L3 arm many"]


def test_the_same_preset_under_two_names_is_trained_once() -> None:
    sweep = laid_out([depth(2)], [PLAIN, Arm("again", PLAIN.residual), FULL], seeds=3)
    assert [(row["arm"], row["reason"]) for row in sweep.impossible] == [("again", "the same preset as L2 plain")]
    assert len(sweep.runs) == len({run.digest for run in sweep.runs}) == 6


def test_steps_are_timed_at_the_ends_and_the_middle_and_price_every_run() -> None:
    timed: list[int] = []

    def calibrate(presets: Mapping[str, Preset]) -> Mapping[str, float]:
        blocks = next(iter(presets.values())).model.transformer_blocks
        timed.append(blocks)
        return {name: blocks * (2.0 if name == "full" else 1.0) for name in presets}

    sweep = laid_out([depth(blocks, size=blocks) for blocks in (1, 2, 3, 4, 7)], calibrate=calibrate)
    assert sorted(timed) == [1, 3, 7]
    evaluation = 160 / 3 / 64  # a third of a training step per token
    costs = {(run.cell, run.arm): run.cost for run in sweep.runs}
    assert costs["L4", "full"] == pytest.approx(6 + 8.0 * (30 + evaluation))  # between 3 and 7
    assert costs["L1", "plain"] == pytest.approx(6 + 1.0 * (30 + evaluation))
    assert sweep.budget["estimated_minutes"] == pytest.approx(wall_seconds(list(costs.values()), 2) / 60)
    assert sweep.budget["step_seconds"]["full"] == {"1": 2.0, "3": 6.0, "7": 14.0}


def test_an_arm_that_could_not_be_timed_counts_as_the_slowest() -> None:
    sweep = laid_out([depth(2)], calibrate=lambda presets: {"plain": 3.0})
    assert sweep.runs[0].cost == sweep.runs[1].cost


def test_points_of_one_size_are_timed_once() -> None:
    calls: list[int] = []

    def calibrate(presets: Mapping[str, Preset]) -> Mapping[str, float]:
        calls.append(len(presets))
        return dict.fromkeys(presets, 1.0)

    points = [Point(f"lr{rate}", {}, {"train.learning_rate": rate}) for rate in (0.1, 0.2, 0.3)]
    laid_out(points, calibrate=calibrate)
    assert calls == [2]


def tenth_of_a_second(presets: Mapping[str, Preset]) -> Mapping[str, float]:
    return dict.fromkeys(presets, 0.1)


def test_minutes_become_tokens_for_all_seeds_together() -> None:
    one, three = (
        laid_out(
            [depth(2)], calibrate=lambda presets: dict.fromkeys(presets, 0.1), budget=Budget("minutes", 5), seeds=n
        )
        for n in (1, 3)
    )
    assert one.tokens > 2.5 * three.tokens
    for sweep in (one, three):
        assert 4.9 < sweep.budget["estimated_minutes"] <= 5
        assert {run.planned_tokens for run in sweep.runs} == {sweep.tokens}


def test_minutes_without_a_step_that_can_be_timed_are_an_error() -> None:
    with pytest.raises(UserError, match="No training step could be timed"):
        laid_out([depth(2)], calibrate=lambda presets: {}, budget=Budget("minutes", 5))


def test_without_a_timing_the_flops_are_the_cost() -> None:
    sweep = laid_out([depth(1), depth(4)])
    assert [run.cost for run in sweep.runs] == [run.flops for run in sweep.runs]
    per_token = sweep.cells[1].facts["counts"]["full"]["training_flops_per_token"]
    assert sweep.runs[-1].flops == per_token * 64 * 30
    assert "estimated_minutes" not in sweep.budget


def test_a_point_may_say_its_own_tokens() -> None:
    points = [Point("short", {}, {"train.horizon_tokens": 64 * 25}), Point("usual", {}, {"train.warmup_fraction": 0.2})]
    sweep = laid_out(points, [PLAIN], budget=Budget("flops", 1e9))
    tokens = {run.cell: run.planned_tokens for run in sweep.runs}
    assert tokens["short"] == 64 * 25
    assert tokens["usual"] == sweep.tokens >= FEWEST_STEPS * 64
    assert sweep.tokens != 64 * 25


def test_a_point_that_goes_on_from_another_trains_and_costs_the_rest_only() -> None:
    points = [
        Point("short", {}, {"train.horizon_tokens": 64 * 20}),
        Point("long", {}, {"train.horizon_tokens": 64 * 40}, after="short", after_step=15),
    ]
    sweep = laid_out(points, seeds=2, calibrate=lambda presets: dict.fromkeys(presets, 1.0))
    short = {(run.arm, run.seed): run for run in sweep.runs if run.cell == "short"}
    for run in sweep.runs:
        if run.cell == "long":
            before = short[run.arm, run.seed]
            assert (run.after, run.after_step) == (before.digest, 15)
            assert run.planned_tokens == 64 * 25
            assert run.flops == before.flops / 20 * 25
            assert run_preset(sweep, run).train.horizon_tokens == 64 * 40


def test_an_overlay_is_an_arm_with_everything_that_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(PRESET.to_toml())
    folder = tmp_path / "presets" / "ablations"
    folder.mkdir(parents=True)
    (folder / "hot.toml").write_text(
        '# Full, hot.\n# paper: {table = "T", row = "R", validation_loss = 1.5}\n'
        '[residual]\nscheme = "attnres-full"\ngain = false\n[train]\nlearning_rate = 0.5\n'
    )
    source = Source("./small.toml")
    arm = overlay_arm(source, source.load(), Entry("hot", "overlay", "project", folder / "hot.toml"))
    assert arm.changes == {"train.learning_rate": 0.5}
    assert (arm.residual["scheme"], arm.residual["gain"]) == ("attnres-full", False)
    assert arm.facts == {"summary": "Full, hot.", "paper": [{"table": "T", "row": "R", "validation_loss": 1.5}]}
    sweep = laid_out([depth(2)], [PLAIN, arm])
    assert [run_preset(sweep, run).train.learning_rate for run in sweep.runs] == [0.01, 0.5]


# ---------------------------------------------------------------- timing real steps


def test_a_preset_that_runs_away_is_timed_all_the_same() -> None:
    hot = PRESET.replace({"train.learning_rate": 1e30, "train.grad_clip": 0.0})
    seconds = step_seconds({"hot": hot, "cold": PRESET}, VOCAB_SIZE, Slot(threads=1))
    assert set(seconds) == {"hot", "cold"}
    assert all(0 < each < 10 for each in seconds.values())


def test_standing_still_changes_nothing_but_the_rates() -> None:
    muon = PRESET.replace({"train.optimizer": "muon", "train.muon_learning_rate": 0.02})
    still = standing_still(muon)
    assert still.train.learning_rate == still.train.muon_learning_rate == 1e-12
    restored = still.replace({"train.learning_rate": 0.01, "train.muon_learning_rate": 0.02})
    assert restored.digest() == muon.digest()
