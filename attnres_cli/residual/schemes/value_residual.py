"""Value residual: every later attention uses the first one's values, added to its own (ResFormer) or in place of them
(SVFormer). The residual stream is PreNorm's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from attnres_cli.preset.schema import OnlyWith, ResidualConfig
from attnres_cli.residual.arms import BASELINE
from attnres_cli.residual.one_stream import OneStream
from attnres_cli.residual.parameters import Own, OwnParameters, Places, constant
from attnres_cli.residual.precision import widen
from attnres_cli.residual.protocol import Cost, Geometry, Site, State


class Config(ResidualConfig):
    """[residual] scheme = "value-residual"."""

    scheme: Literal["value-residual"] = "value-residual"
    kind: Literal["fixed", "learned", "single"] = Field(
        "fixed",
        description="fixed or learned weights of the two values (ResFormer); single: the first's alone (SVFormer)",
    )
    first_weight: Annotated[float, OnlyWith("kind", ("fixed", "learned"))] = Field(
        0.5, description="weight of the first block's values; with learned weights, at first"
    )
    own_weight: Annotated[float, OnlyWith("kind", ("fixed", "learned"))] = Field(
        0.5, description="weight of the block's own values; with learned weights, at first"
    )


class Scheme(OneStream):
    """State: the stream, and from the first attention on its values V_1 [B, key/value heads, T, head size].

    With kind = "single" the value rows of every later block's fused projection get no gradient; the matrix as a whole
    does, through its query and key rows, so no parameter is dead. Those rows are still multiplied: the cost here
    counts no saving. Where the first attention is removed, the first that is there takes its part.
    """

    belongs_to_sublayers = ("blocks",)
    citation = "Zhou et al., Value Residual Learning, arXiv 2410.17897"
    formula = "V'_l = λ_1 V_1 + λ_2 V_l for l > 1 (SVFormer: V'_l = V_1);  h ← h + f(Norm(h))"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        if config.kind != "single" and (config.first_weight, config.own_weight) == (0, 1):
            self.equals_at_initialisation = BASELINE
        own: dict[str, Own] = {}
        if config.kind == "learned":
            own = {"first": Own((), constant(config.first_weight)), "own": Own((), constant(config.own_weight))}
        # The first block has one kind of values and nothing to weigh.
        self.blocks = Places(OwnParameters(**(own if layer else {})) for layer in range(geometry.transformer_blocks))

    def project(
        self, state: State, site: Site, q: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, State]:
        if len(state) == 1:  # the first attention, or the first that is there
            return q, k, v, (*state, v)
        first = state[1]
        if self.config.kind == "single":
            return q, k, first, state
        if self.config.kind == "learned":
            weights = self.blocks.at(site.layer)
            mixed = weights.first * widen(first) + weights.own * widen(v)
        else:
            mixed = self.config.first_weight * widen(first) + self.config.own_weight * widen(v)
        return q, k, mixed.to(v.dtype), state

    def write(self, state: State, site: Site, output: Tensor) -> State:
        return (state[0] + output, *state[1:])

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        return ("stream", "first values")

    def cost(self) -> Cost:
        """Two products and a sum per value channel in every block but the first; nothing with one kind of values."""
        channels = self.geometry.num_kv_heads * self.geometry.head_dim
        mixing = 0 if self.config.kind == "single" else 3 * channels * (self.geometry.transformer_blocks - 1)
        return Cost(self.own_parameters(), float(mixing), float(self.geometry.d_model + channels))
