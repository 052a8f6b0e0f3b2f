"""DeepNorm: PostNorm whose stream is scaled up before the addition, and whose sublayers start with smaller weights."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field
from torch import Tensor

from attnres_cli.preset.schema import PositiveFloat, ResidualConfig
from attnres_cli.residual.normed_stream import NormedStream
from attnres_cli.residual.protocol import Geometry, Site, State


class Config(ResidualConfig):
    """[residual] scheme = "deepnorm"."""

    scheme: Literal["deepnorm"] = "deepnorm"
    alpha: PositiveFloat | None = Field(
        None, description="factor on the stream before each addition; without it (2 L_b)^(1/4)"
    )
    beta: PositiveFloat | None = Field(
        None,
        description="factor on the initial weights of feed-forward, value and output projections; without it "
        "(8 L_b)^(-1/4)",
    )


class Scheme(NormedStream):
    """α and β are the paper's for decoder-only models of M = L_b transformer blocks; RMSNorm where it has LayerNorm.

    The paper multiplies Xavier's standard deviation by β (query and key: by 1), here β multiplies `init_std`. The
    trunk's own 1 / sqrt(2 L_b) on the projections that write the stream is undone: β stands in its place.
    """

    citation = "Wang et al., DeepNet: Scaling Transformers to 1,000 Layers, arXiv 2203.00555"
    formula = "h ← Norm(α h + f(h)),  α = (2 L_b)^¼,  h_1 = Norm(embedding)"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        blocks = geometry.transformer_blocks
        self.alpha = (2 * blocks) ** 0.25 if config.alpha is None else config.alpha
        self.beta = (8 * blocks) ** -0.25 if config.beta is None else config.beta

    def write(self, state: State, site: Site, output: Tensor) -> State:
        return (self.alpha * state[0] + output,)

    def sublayer_gain(self, role: str) -> float:
        if role in ("query", "key"):
            return 1.0
        if role in ("output", "down"):
            return self.beta * math.sqrt(self.geometry.num_sublayers)
        return self.beta

    def forward_flops_per_token(self) -> float:
        """The multiplication by α."""
        return float(self.geometry.d_model * self.geometry.num_sublayers)

    def summary(self) -> str:
        return f"alpha {self.alpha:.4g}, beta {self.beta:.4g}"
