"""A whole optimiser step: all micro-batches forward and backward, the gradient norm, clipping, the update."""

from __future__ import annotations

import torch

from attnres_cli.bench.arms import TrainingArm
from attnres_cli.bench.work import Announce, Work
from attnres_cli.model.counting import training_flops_per_token
from attnres_cli.preset.reading import Preset

UNIT = "training step"
HAS_PROMPT = False


def build(preset: Preset, vocab_size: int, device: torch.device, *, prompt_tokens: int, announce: Announce) -> Work:
    arm = TrainingArm.build(preset, vocab_size, device, announce=announce)
    tokens = preset.train.tokens_per_step
    return Work(
        model=arm.model,
        call=arm.step,
        tokens=tokens,
        flops=tokens * training_flops_per_token(arm.model, preset.model.context_tokens),
        kept=lambda: tuple(arm.optimiser.tensors().values()),
        compiled=arm.loss != arm.model.loss,
    )
