"""Pure PyTorch that never stacks its sources, in two forms.

Here the unrolled functional form, for torch.compile, activation checkpointing and gradient probes: one dot product and
one multiply-add per source. For eager training and inference, `kernels`: whole sites with their backward pass.

Only the logits ([n, M], one number per token and source) are stacked. Autograd then keeps nothing of width d but the
sources themselves, so that memory grows linearly with depth; beside them it keeps a few numbers per token, source
and site.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attnres_cli.residual.precision import full_precision, widen
from attnres_cli.residual.torch_kernels import TorchKernels

NAME = "torch"
kernels = TorchKernels()


def unusable(device: torch.device) -> str | None:
    return None


def inverse_rms(value: Tensor, epsilon: float) -> Tensor:
    return torch.rsqrt(widen(value).square().mean(-1) + epsilon)


def weights(values: Sequence[Tensor], inverse_rms: Sequence[Tensor], query: Tensor) -> Tensor:
    with full_precision(query):
        logits = [torch.matmul(widen(value), query) * scale for value, scale in zip(values, inverse_rms, strict=True)]
    return torch.softmax(torch.stack(logits), dim=0)


def mix(values: Sequence[Tensor], inverse_rms: Sequence[Tensor], query: Tensor) -> Tensor:
    alpha = weights(values, inverse_rms, query).unsqueeze(-1)
    mixed = alpha[0] * values[0]
    for weight, value in zip(alpha[1:], values[1:], strict=True):
        mixed = torch.addcmul(mixed, weight, value)
    return mixed
