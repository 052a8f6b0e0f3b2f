"""What this machine can do at best, measured beside what it does: copying much memory, and one large matrix product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

# Several times the last-level cache, so that copying is limited by memory.
COPIED_BYTES = {"cpu": 1 << 27, "cuda": 1 << 30}
MATRIX_ROWS = {"cpu": 1024, "cuda": 8192}


@dataclass(frozen=True)
class Ceiling:
    """call: one run of it. amount: bytes that it moves (reads and writes), or FLOPs."""

    call: Callable[[], object]
    amount: float


def copy_ceiling(device: torch.device) -> Ceiling:
    """A copy from one buffer to another; every byte is read once and written once."""
    source = torch.ones(COPIED_BYTES[device.type] // 4, device=device)
    target = torch.empty_like(source)
    return Ceiling(lambda: target.copy_(source), 2.0 * source.numel() * source.element_size())


def matrix_ceiling(device: torch.device, dtype: torch.dtype) -> Ceiling:
    """A product of two square matrices of the computation's dtype; multiply-add = 2 FLOPs."""
    rows = MATRIX_ROWS[device.type]
    left, right = torch.ones(rows, rows, dtype=dtype, device=device), torch.ones(rows, rows, dtype=dtype, device=device)
    out = torch.empty_like(left)
    return Ceiling(lambda: torch.mm(left, right, out=out), 2.0 * rows**3)
