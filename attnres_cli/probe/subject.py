"""What a probe is given, a trained model and the tokens it is looked at with, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attnres_cli.model.cross_entropy import IGNORED_TARGET, summed_cross_entropy
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.train.device import autocast

# Token ids [B, T] to what the head sees [B, T, d].
Walk = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Subject:
    """model: in eval mode. batches: the first sequences of the run's validation set as (tokens, targets), int64 [B, T]
    each, on the model's device. precision: the one it was trained in ("fp32" or "bf16")."""

    model: LanguageModel
    batches: tuple[tuple[Tensor, Tensor], ...]
    precision: str

    @property
    def sequences(self) -> int:
        return sum(len(tokens) for tokens, _ in self.batches)

    @property
    def tokens(self) -> int:
        return sum(tokens.numel() for tokens, _ in self.batches)

    @torch.no_grad()
    def sequence_losses(self, walk: Walk | None = None) -> Tensor:
        """Mean loss of each sequence in nats per counted target, [sequences] in float64 on the CPU.

        walk: in place of `model.walk`, for a model that is altered on the way. A sequence without counted targets is
        left out, whatever the walk.
        """
        through = walk or self.model.walk
        losses: list[Tensor] = []
        for tokens, targets in self.batches:
            with autocast(self.precision, tokens.device):
                losses += self.losses_of(through(tokens), targets)
        return torch.stack(losses).cpu()

    def losses_of(self, closed: Tensor, targets: Tensor) -> list[Tensor]:
        """Of what the head sees [B, T, d]: for every sequence with counted targets [B, T] their mean loss."""
        return [
            summed_cross_entropy(states, self.model.head_weight, wanted).double() / counted
            for states, wanted in zip(closed, targets, strict=True)
            if (counted := int((wanted != IGNORED_TARGET).sum()))
        ]


@dataclass(frozen=True)
class Findings:
    """summary: JSON values that tables read. arrays: name → float64 numbers."""

    summary: dict[str, Any]
    arrays: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)
