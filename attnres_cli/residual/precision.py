"""In which precision depth is summed, measured and weighed: at least float32, whatever the sublayers compute in."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def widen(value: Tensor) -> Tensor:
    """The tensor in promote_types(dtype, float32): statistics and sums over depth are never taken in half precision."""
    return value.to(wide(value.dtype))


def wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def full_precision(like: Tensor) -> AbstractContextManager[object]:
    """Autocast would take matrix products in bfloat16; where it is on, it is switched off around them."""
    device = like.device.type
    if device != "meta" and torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()


def inverse_rms(x: Tensor, epsilon: float) -> Tensor:
    """1 / sqrt(mean square + ε) over the last dimension: [..., d] → [...]."""
    norm: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return (norm.square() / x.shape[-1] + epsilon).rsqrt()
