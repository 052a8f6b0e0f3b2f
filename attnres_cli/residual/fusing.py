"""What fused passes share: when one may run, in which dtype its norms answer, and how it sees tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from attnres_cli.residual.operator import Kernels


def can_fuse(kernels: Kernels | None, weight: Tensor) -> bool:
    """Whether a pass with parameters like `weight` may go through `kernels`."""
    return kernels is not None and weight.dtype in kernels.dtypes and not torch.compiler.is_compiling()


def output_dtype(like: Tensor, gain: Tensor) -> torch.dtype:
    """Of a norm's output: what the matrix product that follows wants, so that nothing has to be cast again.

    Autocast does not know the meta device; there it is the CPU's that counts.
    """
    device = "cpu" if like.is_meta else like.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return gain.dtype


def flat_rows(x: Tensor) -> Tensor:
    """[..., d] as contiguous [M, d], out of the graph: a view would hold on to it, and the graph holds the tape."""
    return x.detach().reshape(-1, x.shape[-1]).contiguous()


def as_is(x: Tensor) -> Tensor:
    return x.contiguous()


def shaped(rows: Tensor, shape: torch.Size) -> Tensor:
    return rows if rows.shape == shape else rows.view(shape)
