"""Loss on the fixed validation tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from attnres_cli.model.cross_entropy import IGNORED_TARGET
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.train.device import autocast
from attnres_cli.train.step import Array, LossFunction, to_device


@dataclass(frozen=True)
class ValidationSet:
    """inputs and targets [sequences, T]; num_bytes: UTF-8 bytes that the counted targets stand for, None when
    unknown."""

    inputs: Array
    targets: Array
    num_bytes: float | None
    digest: str

    @property
    def num_tokens(self) -> int:
        return int((self.targets != IGNORED_TARGET).sum())


@dataclass(frozen=True)
class Evaluation:
    """loss in nats per token; bits_per_byte None where the corpus has no bytes."""

    loss: float
    perplexity: float
    bits_per_byte: float | None


@torch.no_grad()
def evaluate(
    model: LanguageModel, loss_function: LossFunction, validation: ValidationSet, *, sequences: int, precision: str
) -> Evaluation:
    """Mean loss over every counted token of the set, in batches of `sequences`, summed in float64."""
    device = model.embedding.weight.device
    model.eval()
    total = 0.0
    for first in range(0, len(validation.inputs), sequences):
        x = to_device(validation.inputs[first : first + sequences], device)
        y = to_device(validation.targets[first : first + sequences], device)
        with autocast(precision, device):
            total += float(loss_function(x, y))
    model.train()
    loss = total / max(1, validation.num_tokens)
    bits_per_byte = total / math.log(2) / validation.num_bytes if validation.num_bytes else None
    return Evaluation(loss, math.exp(min(loss, 700.0)), bits_per_byte)
