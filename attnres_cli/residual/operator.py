"""The depth-attention operator: one interface, one file per back end.

h = Σ_i α_i v_i with α = softmax_i(q · v_i / rms(v_i)), for every token apart (arXiv 2603.15031, Eq. 2–4). A back
end gets the sources as a list and must not stack them; everything is computed in the sources' dtype, which the
caller has already widened to at least float32 (`widen`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import torch
from torch import Tensor

from attnres_cli import discovery

PACKAGE = "residual.ops"


class DepthAttentionOp(Protocol):
    """What every back end offers. M stands for the token dimensions ([B, T] in the model)."""

    NAME: str

    def inverse_rms(self, value: Tensor, epsilon: float) -> Tensor:
        """1 / sqrt(mean square + epsilon) of a source: [..., d] → [...]. Called once, when the source is born."""

    def mix(self, values: Sequence[Tensor], inverse_rms: Sequence[Tensor], query: Tensor) -> Tensor:
        """Weighted sum of the sources, [M, d]. values: n × [M, d]; inverse_rms: n × [M]; query: [d], gain folded in."""

    def weights(self, values: Sequence[Tensor], inverse_rms: Sequence[Tensor], query: Tensor) -> Tensor:
        """The softmax over depth itself, [n, M]; what `mix` weighs with."""


def widen(value: Tensor) -> Tensor:
    """The tensor in promote_types(dtype, float32): statistics and sums over depth are never taken in half precision."""
    return value.to(torch.promote_types(value.dtype, torch.float32))


def backend_names() -> tuple[str, ...]:
    return discovery.names(PACKAGE)


def choose_backend(wanted: str) -> DepthAttentionOp:
    """The back end called `wanted`; "auto" takes the fastest that runs everywhere. Raises UserError for an unknown
    name."""
    name = "torch" if wanted == "auto" else wanted
    return cast(
        DepthAttentionOp, discovery.load(PACKAGE, name, what="depth-attention back end", where="residual.backend")
    )
