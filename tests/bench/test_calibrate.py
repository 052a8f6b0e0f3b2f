"""Which way a step time is guessed, and that nothing is guessed for a device that is not there."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attnres_cli.bench.calibrate import Calibration, Load, calibrate
from attnres_cli.preset.reading import Preset
from tests.small import RESIDUALS, VOCAB_SIZE, small_preset


def load(preset: Preset, **changes: float) -> Load:
    return replace(Load(preset, parameters=10_000, training_flops_per_token=6e4, memory_bytes=10**6), **changes)


def measured(*loads: Load) -> list[Calibration]:
    return calibrate(loads, VOCAB_SIZE, seconds=0.02)


def test_small_models_are_trained() -> None:
    first, second = measured(load(small_preset()), load(small_preset(RESIDUALS["full"])))
    assert first.method == second.method == "training steps"
    assert not first.is_lower_bound
    assert first.step_seconds is not None
    assert first.step_seconds > 0
    assert first.reason.endswith("eager steps of 32 tokens, 2 to an update")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"parameters": 350_000_000}, "too large"),
        ({"training_flops_per_token": 1e13}, "too large"),
        ({"memory_bytes": 2**50}, "the 2 arms together need"),
    ],
    ids=["weights", "arithmetic", "memory"],
)
def test_large_models_are_bounded_by_their_matrix_products(changes: dict[str, float], said: str) -> None:
    """One arm that cannot be trained here is enough: arms that were timed in two ways could not be compared."""
    small, large = measured(load(small_preset()), load(small_preset(), **changes))
    assert small.method == large.method == "matrix products"
    assert large.is_lower_bound
    assert said in large.reason
    assert small.step_seconds is not None
    assert large.step_seconds is not None
    flops = changes.get("training_flops_per_token", 6e4)
    assert large.step_seconds / small.step_seconds == pytest.approx(flops / 6e4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_device_that_is_not_there() -> None:
    (none,) = measured(load(small_preset(**{"train.device": "cuda"})))
    assert none.method == "none"
    assert none.step_seconds is None
    assert "CUDA" in none.reason
