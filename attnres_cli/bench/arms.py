"""A preset as something that can be timed: whole training steps on random tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from attnres_cli.model.build import build_model
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.preset.reading import Preset
from attnres_cli.train.optimisers import Optimiser
from attnres_cli.train.step import Array, LossFunction, compiled_loss, take_step


@dataclass
class TrainingArm:
    """A model with its optimiser, and one batch of random tokens that it takes training steps on again and again.

    The learning rate is that of the middle of the schedule. Everything a step does in training is in the step: all
    micro-batches, the gradient norm, clipping, the update.
    """

    preset: Preset
    model: LanguageModel
    optimiser: Optimiser
    loss: LossFunction
    batch: tuple[Array, Array]

    @staticmethod
    def build(
        preset: Preset, vocab_size: int, device: torch.device, *, announce: Callable[[str], None] = lambda _: None
    ) -> TrainingArm:
        """announce: told in one sentence when torch.compile is wanted and does not work."""
        model = build_model(preset, vocab_size, device=device)
        loss = compiled_loss(model, preset, announce)
        return TrainingArm(preset, model, Optimiser(model, preset), loss, random_batch(preset, vocab_size))

    def step(self) -> None:
        take_step(self.model, self.loss, self.optimiser, self.preset, self.preset.steps // 2, *self.batch)


def random_batch(preset: Preset, vocab_size: int) -> tuple[Array, Array]:
    """Inputs and targets of one optimiser step, [sequences, T] int64; the same ones for every arm."""
    shape = (preset.sequences_per_step, preset.model.context_tokens)
    inputs, targets = np.random.default_rng(0).integers(0, vocab_size, size=(2, *shape), dtype=np.int64)
    return inputs, targets


def synchronize(device: torch.device) -> None:
    """Wait until an asynchronous device has done everything that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
