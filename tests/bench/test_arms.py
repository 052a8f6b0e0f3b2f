"""Presets as arms: whole training steps in turn, with memory and facts, through a round trip to JSON."""

from __future__ import annotations

import json

import pytest
import torch

from attnres_cli.bench.arms import TrainingArm, bench_presets
from attnres_cli.bench.interleaved import BenchResult
from attnres_cli.errors import UserError
from attnres_cli.model.counting import training_flops_per_token
from tests.small import RESIDUALS, VOCAB_SIZE, small_model, small_preset


def test_bench_of_two_schemes() -> None:
    presets = {name: small_preset(RESIDUALS[name]) for name in ("prenorm", "full")}
    rounds: list[tuple[int, int]] = []
    result = bench_presets(
        presets,
        vocab_sizes=dict.fromkeys(presets, VOCAB_SIZE),
        pairs=3,
        progress=lambda done, total: rounds.append((done, total)),
    )
    assert [arm.name for arm in result.arms] == ["prenorm", "full"]
    assert rounds == [(1, 3), (2, 3), (3, 3)]
    full = result.arm("full")
    assert len(full.wall_seconds) == len(full.cpu_seconds) == 3
    assert full.facts["scheme"] == "attnres-full"
    assert full.facts["parameters"] - result.arm("prenorm").facts["parameters"] == 9 * 2 * 16
    assert full.facts["training_flops_per_token"] == training_flops_per_token(small_model(RESIDUALS["full"]), 16)
    assert full.facts["first_step_seconds"] > 0
    # Weights, two moments of each, a step counter of each parameter, and the rotary tables.
    model = small_model(RESIDUALS["full"], dtype=torch.float32)
    weights = 4 * full.facts["parameters"]
    tables = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    counters = 4 * sum(1 for name, _ in model.named_parameters() if "sites.0" not in name)
    dead = sum(p.numel() for name, p in model.named_parameters() if "sites.0" in name)  # no gradient, so no moments
    assert full.resident_bytes == weights + 2 * (weights - 4 * dead) + counters + tables
    assert full.peak_bytes is not None
    assert full.peak_bytes > full.resident_bytes
    assert BenchResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result


def test_an_arm_takes_real_training_steps() -> None:
    """The same batch again and again: the model learns it by heart."""
    preset = small_preset(RESIDUALS["3 blocks"])
    arm = TrainingArm.build(preset, VOCAB_SIZE, torch.device("cpu"))
    before = loss_of(arm)
    for _ in range(30):
        arm.step()
    assert loss_of(arm) < 0.8 * before


def loss_of(arm: TrainingArm) -> float:
    with torch.no_grad():
        return float(arm.model.loss(*(torch.from_numpy(array) for array in arm.batch)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_device_that_is_not_there() -> None:
    presets = {"a": small_preset(), "b": small_preset(**{"train.device": "cuda:0"})}
    with pytest.raises(UserError, match="cuda:0"):
        bench_presets(presets, vocab_sizes=dict.fromkeys(presets, VOCAB_SIZE), pairs=1)
