"""The definition, as obvious as it can be: stack, normalise the keys, softmax over depth, sum. Slow; for checking."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attnres_cli.residual.precision import widen

NAME = "reference"
kernels = None


def unusable(device: torch.device) -> str | None:
    return None


def inverse_rms(value: Tensor, epsilon: float) -> Tensor:
    return torch.rsqrt(widen(value).square().mean(-1) + epsilon)


def weights(values: Sequence[Tensor], inverse_rms: Sequence[Tensor], query: Tensor) -> Tensor:
    keys = _stacked(values) * torch.stack(tuple(inverse_rms)).unsqueeze(-1)  # [n, M, d], RMS-normalised
    return torch.softmax((keys * query).sum(-1), dim=0)


def mix(values: Sequence[Tensor], inverse_rms: Sequence[Tensor], query: Tensor) -> Tensor:
    alpha = weights(values, inverse_rms, query)
    return (alpha.unsqueeze(-1) * _stacked(values)).sum(0)


def _stacked(values: Sequence[Tensor]) -> Tensor:
    return torch.stack([widen(value) for value in values])
