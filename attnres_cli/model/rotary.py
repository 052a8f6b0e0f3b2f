"""Rotary position embedding (Su et al., arXiv 2104.09864): neighbouring channel pairs turned by position ×
frequency."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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
        batch, length, heads, _ = x.shape
        turns = self.turns[first_position : first_position + length]
        wide = x.to(turns.dtype)
        if torch.compiler.is_compiling():  # inductor has no complex arithmetic
            pairs = wide.view(batch, length, heads, -1, 2)
            even, odd, cos, sin = pairs[..., 0], pairs[..., 1], turns[:, None, :, 0], turns[:, None, :, 1]
            turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)
        else:  # all heads of a token in one run, so that the product's inner loop is long
            table = torch.view_as_complex(turns).repeat(1, heads)
            pairs = torch.view_as_complex(wide.reshape(batch, length, -1, 2))
            turned = torch.view_as_real(pairs * table).view(x.shape)
        return turned.to(x.dtype)
