"""What schemes share that carry one stream [B, T, d] through depth and normalise it before every sublayer.

A subclass says how a sublayer's output is added (`write`), and overrides what else it does differently.
"""

from __future__ import annotations

from torch import Tensor

from attnres_cli.residual.precision import widen
from attnres_cli.residual.protocol import Cost, Norm, Residual, Site, State, SublayerInput


class OneStream(Residual):
    """State: the stream alone, in at least float32."""

    def open(self, embedding: Tensor) -> State:
        return (widen(embedding),)

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        return site.norm(state[0]), state

    def close(self, state: State, final_norm: Norm) -> Tensor:
        return final_norm(state[0])

    def stream(self, state: State) -> Tensor:
        """The residual stream."""
        return state[0]

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        return ("stream",)

    def cost(self) -> Cost:
        return Cost(self.own_parameters(), self.forward_flops_per_token(), float(self.geometry.d_model))

    def forward_flops_per_token(self) -> float:
        """What the scheme computes beyond the plain addition; a norm counts 4 d, as everywhere."""
        return 0.0
