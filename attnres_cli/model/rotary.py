"""Rotary position embedding (Su et al., arXiv 2104.09864): neighbouring channel pairs turned by position ×
frequency."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attnres_cli.native import PLAIN_PASS_DEVICES, operators


class Rotary(nn.Module):
    """Turns channels (2i, 2i+1) of position t by the angle t · θ^(-2i / head size).

    The table of (cos, sin) [context, head size / 2, 2] is a buffer that is not saved with the model. In eager mode
    it is read as complex numbers: one complex product touches every value once, where the usual real form takes six
    passes on a CPU.
    """

    turns: Tensor

    def __init__(self, head_dim: int, context_tokens: int, theta: float) -> None:
        super().__init__()
        self.head_dim, self.context_tokens, self.theta = head_dim, context_tokens, theta
        self.register_buffer("turns", torch.empty(context_tokens, head_dim // 2, 2), persistent=False)

    def fill(self, dtype: torch.dtype) -> None:
        """Compute the table in float64 on the buffer's device, then round it to promote_types(dtype, float32)."""
        device = self.turns.device
        pairs = torch.arange(0, self.head_dim, 2, dtype=torch.float64, device=device)
        positions = torch.arange(self.context_tokens, dtype=torch.float64, device=device)
        angles = torch.outer(positions, self.theta ** (-pairs / self.head_dim))
        self.turns = torch.stack((angles.cos(), angles.sin()), -1).to(torch.promote_types(dtype, torch.float32))

    def forward(self, x: Tensor, first_position: int = 0) -> Tensor:
        """x: [B, T, heads, head size], any real dtype; the result has the same dtype."""
        turns = self._turns(first_position, x.shape[1])
        wide = x.to(turns.dtype)
        if torch.compiler.is_compiling():  # inductor has no complex arithmetic
            pairs = wide.view(*x.shape[:-1], -1, 2)
            even, odd, cos, sin = pairs[..., 0], pairs[..., 1], turns[:, None, :, 0], turns[:, None, :, 1]
            turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)
        else:
            turned = torch.view_as_real(_as_complex(wide) * _for_all_heads(turns, x.shape[2])).view(x.shape)
        return turned.to(x.dtype)

    def split(
        self, heads: Tensor, counts: tuple[int, int, int], first_position: int = 0
    ) -> tuple[Tensor, Tensor, Tensor]:
        """q and k turned, and v, of fused heads [B, T, q + k + v, head size] whose numbers are `counts`.

        `heads` is used up: the three may share its memory.
        """
        q_heads, k_heads, v_heads = counts
        turns = self._turns(first_position, heads.shape[1])
        if operators.usable(heads) and heads.is_contiguous():
            q, k, v = _NativeSplit.apply(heads, turns, q_heads, k_heads)  # type: ignore[no-untyped-call]
            return q, k, v
        if heads.device.type in PLAIN_PASS_DEVICES and heads.dtype == turns.dtype and not torch.compiler.is_compiling():
            q, k, v = _CpuSplit.apply(heads, turns, q_heads, k_heads)  # type: ignore[no-untyped-call]
            return q, k, v
        q_and_k, v = torch.split(heads, [q_heads + k_heads, v_heads], dim=2)
        q, k = torch.split(self(q_and_k, first_position), [q_heads, k_heads], dim=2)
        return q, k, v

    def _turns(self, first_position: int, length: int) -> Tensor:
        return self.turns[first_position : first_position + length]


class _NativeSplit(torch.autograd.Function):
    """Turns q and k where they lie, in C++, and their gradients in the one tensor that the three are written into.

    The fused heads come from a matrix product, which keeps its inputs and not its result.
    """

    @staticmethod
    def forward(ctx: Any, heads: Tensor, turns: Tensor, q_heads: int, k_heads: int) -> tuple[Tensor, Tensor, Tensor]:
        turned_heads = q_heads + k_heads
        ctx.save_for_backward(turns)
        ctx.shape, ctx.counts = heads.shape, (q_heads, k_heads)
        torch.ops.attnres.turn_(heads.detach(), turns, turned_heads, False)
        return heads[:, :, :q_heads], heads[:, :, q_heads:turned_heads], heads[:, :, turned_heads:]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_q: Tensor, grad_k: Tensor, grad_v: Tensor) -> tuple[Tensor, None, None, None]:
        (turns,) = ctx.saved_tensors
        q_heads, k_heads = ctx.counts
        grad = torch.empty(ctx.shape, dtype=grad_q.dtype, device=grad_q.device)
        for part, first in ((grad_q, 0), (grad_k, q_heads), (grad_v, q_heads + k_heads)):
            grad[:, :, first : first + part.shape[2]].copy_(part)
        torch.ops.attnres.turn_(grad, turns, q_heads + k_heads, True)
        return grad, None, None, None


class _CpuSplit(torch.autograd.Function):
    """Turns q and k, passes v on, and in the backward pass writes the three gradients into one tensor, where
    autograd would build two and join them with another pass over all of it."""

    @staticmethod
    def forward(ctx: Any, heads: Tensor, turns: Tensor, q_heads: int, k_heads: int) -> tuple[Tensor, Tensor, Tensor]:
        turned_heads = q_heads + k_heads
        table = _for_all_heads(turns, turned_heads)
        ctx.save_for_backward(table)
        ctx.shape, ctx.counts = heads.shape, (q_heads, k_heads)
        turned = torch.view_as_real(_as_complex(heads[:, :, :turned_heads]) * table)
        turned = turned.view(*heads.shape[:2], turned_heads, -1)
        return turned[:, :, :q_heads], turned[:, :, q_heads:], heads[:, :, turned_heads:]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_q: Tensor, grad_k: Tensor, grad_v: Tensor) -> tuple[Tensor, None, None, None]:
        (table,) = ctx.saved_tensors
        q_heads, k_heads = ctx.counts
        pairs = ctx.shape[-1] // 2
        grad = torch.empty(ctx.shape, dtype=grad_q.dtype, device=grad_q.device)
        back = torch.conj_physical(table)
        for part, first, count in ((grad_q, 0, q_heads), (grad_k, q_heads, k_heads)):
            target = _as_complex(grad[:, :, first : first + count])
            torch.mul(_as_complex(part.contiguous()), back[:, : count * pairs], out=target)
        grad[:, :, q_heads + k_heads :].copy_(grad_v)
        return grad, None, None, None


def _as_complex(x: Tensor) -> Tensor:
    """[B, T, heads, head size] as complex [B, T, heads × head size / 2], so that the inner loop of a product is
    long."""
    return torch.view_as_complex(x.reshape(*x.shape[:2], -1, 2))


def _for_all_heads(turns: Tensor, heads: int) -> Tensor:
    """The table [T, head size / 2, 2] as complex [T, heads × head size / 2]."""
    return torch.view_as_complex(turns).repeat(1, heads)
