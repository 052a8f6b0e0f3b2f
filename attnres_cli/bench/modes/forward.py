"""The loss of a training step's batch without gradients, micro-batch by micro-batch, as a validation computes it."""

from __future__ import annotations

import torch

from attnres_cli.bench.arms import random_batch
from attnres_cli.bench.work import Announce, Work
from attnres_cli.model.build import build_model
from attnres_cli.model.counting import forward_flops_per_token
from attnres_cli.preset.reading import Preset
from attnres_cli.train.device import autocast
from attnres_cli.train.step import compiled_loss

UNIT = "forward pass"
HAS_PROMPT = False


def build(preset: Preset, vocab_size: int, device: torch.device, *, prompt_tokens: int, announce: Announce) -> Work:
    model = build_model(preset, vocab_size, device=device)
    loss = compiled_loss(model, preset, announce)
    size = preset.train.micro_batch_sequences
    inputs, targets = (torch.from_numpy(array).to(device) for array in random_batch(preset, vocab_size))
    pieces = list(zip(torch.split(inputs, size), torch.split(targets, size), strict=True))

    @torch.no_grad()
    def call() -> None:
        for x, y in pieces:
            with autocast(preset.train.precision, device):
                loss(x, y)

    flops = sum(forward_flops_per_token(model, preset.model.context_tokens).values())
    return Work(
        model, call, inputs.numel(), flops * inputs.numel(), kept=lambda: (inputs, targets), compiled=loss != model.loss
    )
