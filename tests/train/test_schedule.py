"""The learning-rate schedules at their corners."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnres_cli.train.schedule import learning_rate_factor
from tests.small import small_preset


def factors(steps: int, **changes: object) -> list[float]:
    preset = small_preset(**{"train.horizon_tokens": steps * 64, **{f"train.{k}": v for k, v in changes.items()}})
    assert preset.steps == steps
    return [learning_rate_factor(preset, step) for step in range(steps)]


def test_cosine() -> None:
    found = factors(100, warmup_fraction=0.1, min_lr_ratio=0.2)
    assert found[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert found[54] == pytest.approx(0.2 + 0.8 * 0.5 * (1 + math.cos(math.pi * 0.5)))
    assert found[-1] == pytest.approx(0.2)


def test_wsd_is_constant_and_then_linear() -> None:
    found = factors(100, schedule="wsd", warmup_fraction=0.1, decay_fraction=0.2, min_lr_ratio=0.0)
    assert found[9:80] == [1.0] * 71
    assert found[80:] == pytest.approx([1 - (i + 1) / 20 for i in range(20)])


@settings(max_examples=200)
@given(
    steps=st.integers(1, 60),
    schedule=st.sampled_from(["cosine", "wsd"]),
    warmup=st.floats(0, 0.8),  # with the default decay of 0.2 a preset refuses more
    floor=st.floats(0, 1),
)
def test_between_zero_and_one_and_never_zero_at_the_start(
    steps: int, schedule: str, warmup: float, floor: float
) -> None:
    found = factors(steps, schedule=schedule, warmup_fraction=warmup, min_lr_ratio=floor)
    assert all(0 <= factor <= 1 for factor in found)
    assert steps == 1 or found[0] > 0
    peak = found.index(max(found))
    assert found[: peak + 1] == sorted(found[: peak + 1])
    assert found[peak:] == sorted(found[peak:], reverse=True)
