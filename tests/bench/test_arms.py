"""A preset as an arm takes real training steps."""

from __future__ import annotations

import torch

from attnres_cli.bench.arms import TrainingArm
from tests.small import RESIDUALS, VOCAB_SIZE, small_preset


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
