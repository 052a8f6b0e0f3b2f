"""KEEL: PostNorm with the stream scaled up by the depth, and a second norm before each sublayer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from attnres_cli.preset.schema import PositiveFloat, ResidualConfig
from attnres_cli.residual.norm import RMSNorm
from attnres_cli.residual.one_stream import OneStream
from attnres_cli.residual.protocol import Geometry, Site, State


class Config(ResidualConfig):
    """[residual] scheme = "keel"."""

    scheme: Literal["keel"] = "keel"
    alpha: PositiveFloat | None = Field(
        None, description="factor on the stream before each addition; without it the number of sublayers L"
    )


class Scheme(OneStream):
    """The sublayer's own norm is the inner one. The outer norm of the last sublayer is the final norm; the others are
    the scheme's own. All are RMSNorms. The first sublayer is like any other, its stream the embedding as it is.

    α = L, counting attention and feed-forward apart, is what second-hand accounts give; the paper itself was not at
    hand, hence the key.
    """

    citation = "Chen and Wei, Post-LayerNorm Is Back: Stable, ExpressivE, and Deep, arXiv 2601.19895"
    formula = "h ← Norm_out(α h + f(Norm(h))),  α = L"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        self.alpha = float(geometry.num_sublayers) if config.alpha is None else config.alpha
        self.outer_norms = nn.ModuleList(
            RMSNorm(geometry.d_model, geometry.norm_epsilon) for _ in range(geometry.num_sublayers - 1)
        )

    def write(self, state: State, site: Site, output: Tensor) -> State:
        total = self.alpha * state[0] + output
        if site.ordinal == len(self.outer_norms):  # the last: `close` normalises
            return (total,)
        return (self.outer_norms[site.ordinal](total),)

    def stream(self, state: State) -> Tensor:
        """The stream after its outer norm; after the last sublayer the sum before the final norm."""
        return state[0]

    def forward_flops_per_token(self) -> float:
        """The multiplication by α and the outer norms but the last, 4 d each."""
        d, sublayers = self.geometry.d_model, self.geometry.num_sublayers
        return float(d * sublayers + 4 * d * (sublayers - 1))

    def summary(self) -> str:
        return f"alpha {self.alpha:g}"
