"""Plans against real models: what a plan says of a cell is what its preset builds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest

from attnres_cli.errors import UserError
from attnres_cli.model.build import build_model
from attnres_cli.model.counting import non_embedding_parameters, training_flops_per_token
from attnres_cli.sweep.budget import Budget
from attnres_cli.sweep.kinds.depth_width import PINNED, MatchKind, plan
from attnres_cli.sweep.layout import Context
from attnres_cli.sweep.request import Request
from attnres_cli.sweep.resolve import run_preset
from attnres_cli.sweep.results import Arm, Sweep
from attnres_cli.sweep.shapes import Shape
from tests.small import small_preset

VOCAB_SIZE = 31
PRESET = small_preset(
    **{
        "model.d_model": 48,
        "model.num_heads": 6,
        "model.d_ff": 128,
        "train.horizon_tokens": 4096,
        "eval.every_steps": 8,
    }
)
REFERENCE = Arm("prenorm", {"scheme": "prenorm"})
FULL = Arm("attnres-full", {"scheme": "attnres-full", "gain": False})


def request(**changes: Any) -> Request:
    settings: dict[str, Any] = {
        "match": "parameters", "ratios": [6.0, 12.0, 32.0], "head_ratios": [], "learning_rate_power": -0.5,
    }  # fmt: skip
    own = {key: changes.pop(key) for key in list(changes) if key in settings}
    values: dict[str, Any] = {
        "kind": "depth-width", "preset": PRESET, "arms": (REFERENCE, FULL), "settings": settings | own,
    }  # fmt: skip
    return Request(**{**values, **changes})


def planned(calibrate: Any = None, tokens: int | None = None, **changes: Any) -> Sweep:
    context = Context("x", "attnres sweep", VOCAB_SIZE, calibrate=calibrate, tokens=tokens)
    return plan(request(**changes), context)


@pytest.mark.parametrize("match", ["parameters", "flops"])
def test_the_counts_of_a_cell_are_those_of_its_model(match: MatchKind) -> None:
    sweep = planned(match=match)
    assert len(sweep.cells) == 3
    target = sweep.facts["reference"]["counts"][PINNED[match]]
    for run in sweep.runs:
        facts = sweep.cell(run.cell).facts
        counts = facts["counts"][run.arm]
        preset = run_preset(sweep, run)
        model = build_model(preset, VOCAB_SIZE)
        assert sum(parameter.numel() for parameter in model.parameters()) == counts["parameters"]
        assert non_embedding_parameters(model) == counts["non_embedding_parameters"]
        assert training_flops_per_token(model, preset.model.context_tokens) == counts["training_flops_per_token"]
        if run.arm == REFERENCE.label:
            assert abs(counts[PINNED[match]] / target - 1) <= 0.02
            assert facts["mismatch"][PINNED[match]] == counts[PINNED[match]] / target - 1


def test_every_run_differs_from_the_preset_in_shape_rate_scheme_and_tokens_only() -> None:
    sweep = planned(tokens=6400)
    for run in sweep.runs:
        preset, cell = run_preset(sweep, run), sweep.cell(run.cell)
        assert preset.digest() == run.digest
        assert preset.to_dict()["residual"]["scheme"] == run.arm
        assert preset.train.horizon_tokens == 6400
        changed = {
            f"{section}.{key}"
            for section, keys in preset.to_dict().items()
            for key in keys
            if section != "residual" and PRESET.to_dict()[section].get(key) != keys[key]
        }
        assert changed <= {*Shape(**cell.facts["shape"]).settings(), "train.learning_rate", "train.horizon_tokens"}
    assert len({run.digest for run in sweep.runs}) == len(sweep.runs) == 6


@pytest.mark.parametrize("power", [-0.5, -1.0, 0.0])
def test_the_learning_rate_follows_width_by_the_stated_rule(power: float) -> None:
    sweep = planned(learning_rate_power=power)
    for cell in sweep.cells:
        expected = PRESET.train.learning_rate * (cell.facts["shape"]["d_model"] / PRESET.model.d_model) ** power
        assert math.isclose(cell.facts["learning_rate"], expected, rel_tol=1e-3)
        for arm in sweep.arms:
            run = next(run for run in sweep.runs if (run.cell, run.arm) == (cell.key, arm.label))
            assert run_preset(sweep, run).train.learning_rate == cell.facts["learning_rate"]
    assert sweep.facts["learning_rate_rule"] == (
        f"Peak learning rate = 0.01 × (d_model / 48)^{power:g}, the same for every scheme."
    )


def test_muons_own_rate_follows_too() -> None:
    preset = PRESET.replace({"train.optimizer": "muon", "train.muon_learning_rate": 0.02})
    sweep = planned(preset=preset)
    for cell in sweep.cells:
        assert cell.facts["muon_learning_rate"] == pytest.approx(2 * cell.facts["learning_rate"], rel=1e-3)
    assert run_preset(sweep, sweep.runs[-1]).train.muon_learning_rate == sweep.cells[-1].facts["muon_learning_rate"]


def test_a_sweep_survives_its_file() -> None:
    sweep = planned(head_ratios=[1.0, 2.0])
    again = Sweep.from_dict(json.loads(json.dumps(sweep.to_dict())))
    assert again.to_dict() == json.loads(json.dumps(sweep.to_dict()))
    assert [run_preset(again, run).digest() for run in again.runs] == [run.digest for run in sweep.runs]


def test_a_scheme_that_does_not_fit_a_depth_makes_the_cell_impossible() -> None:
    blocks = Arm("attnres-block", {"scheme": "attnres-block", "num_blocks": 7})
    sweep = planned(arms=(REFERENCE, blocks))
    assert [cell["key"] for cell in sweep.impossible] == ["r32"]
    assert "num_blocks = 7 is more than the model's 4 sublayers" in sweep.impossible[0]["reason"]
    assert {run.cell for run in sweep.runs} == {"r6", "r12"}


def test_a_grid_without_a_possible_cell_is_an_error_with_every_reason() -> None:
    with pytest.raises(UserError) as caught:
        planned(ratios=[5000.0, 9000.0])
    assert ["r5000" in caught.value.faults[0].what, "r9000" in caught.value.faults[1].what] == [True, True]


def test_flops_become_tokens_at_the_presets_own_shape() -> None:
    sweep = planned(budget=Budget("flops", 1e10))
    per_token = sweep.facts["reference"]["counts"]["training_flops_per_token"]
    assert sweep.tokens % PRESET.train.tokens_per_step == 0
    assert sweep.tokens * per_token <= 1e10 < (sweep.tokens + PRESET.train.tokens_per_step) * per_token


def test_minutes_are_timed_at_the_extremes_and_kept_in_the_file() -> None:
    timed: list[int] = []

    def one_millisecond_per_block(presets: Mapping[str, Any]) -> Mapping[str, float]:
        depths = {preset.model.transformer_blocks for preset in presets.values()}
        assert len(depths) == 1
        timed.extend(depths)
        return {name: 1e-3 * next(iter(depths)) for name in presets}

    sweep = planned(one_millisecond_per_block, budget=Budget("minutes", 2))
    depths: list[int] = [cell.facts["shape"]["transformer_blocks"] for cell in sweep.cells]
    assert timed == depths
    seconds = sum(2 * (6 + 1e-3 * depth * (sweep.tokens + (1 + sweep.tokens / 512) * 160 / 3) / 64) for depth in depths)
    assert sweep.budget["estimated_minutes"] == pytest.approx(seconds / 60)
    assert 1.98 < sweep.budget["estimated_minutes"] <= 2
    assert sweep.budget["step_seconds"]["prenorm"] == {str(depth): 1e-3 * depth for depth in depths}
    assert sum(run.cost for run in sweep.runs) == pytest.approx(seconds)


def test_seeds_are_runs_of_their_own_and_differ_in_nothing_else() -> None:
    sweep = planned(seeds=3, ratios=[12.0])
    assert sweep.seeds == [0, 1, 2]
    every = [(arm.label, seed) for arm in sweep.arms for seed in range(3)]
    assert [(run.arm, run.seed) for run in sweep.runs] == every
    presets = [run_preset(sweep, run) for run in sweep.runs if run.arm == "prenorm"]
    assert [preset.train.seed for preset in presets] == [0, 1, 2]
    assert len({preset.replace({"train.seed": 0}).digest() for preset in presets}) == 1
    assert [preset.digest() for preset in presets] == [run.digest for run in sweep.runs if run.arm == "prenorm"]
