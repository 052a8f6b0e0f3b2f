"""LayerScale: every sublayer's output is weighed channel by channel, with learned weights that start near zero."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from attnres_cli.preset.schema import PositiveFloat, ResidualConfig
from attnres_cli.residual.arms import BASELINE
from attnres_cli.residual.one_stream import OneStream
from attnres_cli.residual.parameters import Own, OwnParameters, Places, constant
from attnres_cli.residual.protocol import Geometry, Site, State


class Config(ResidualConfig):
    """[residual] scheme = "layerscale"."""

    scheme: Literal["layerscale"] = "layerscale"
    initial_scale: PositiveFloat | None = Field(
        None,
        description="first value of every weight; without it 0.1 up to 18 transformer blocks, 1e-5 up to 24, else 1e-6",
    )


def scale_for_depth(transformer_blocks: int) -> float:
    """The paper's first value for a model of this many transformer blocks."""
    if transformer_blocks <= 18:
        return 0.1
    return 1e-5 if transformer_blocks <= 24 else 1e-6


class Scheme(OneStream):
    """λ_l [d] per sublayer. At first the model is close to the embedding alone."""

    citation = "Touvron et al., Going deeper with Image Transformers, arXiv 2103.17239"
    formula = "h ← h + λ_l ⊙ f(Norm(h)),  λ_l small at first"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        rule = scale_for_depth(geometry.transformer_blocks)
        self.initial_scale = rule if config.initial_scale is None else config.initial_scale
        if self.initial_scale == 1:
            self.equals_at_initialisation = BASELINE
        scale = Own((geometry.d_model,), constant(self.initial_scale))
        self.sites = Places(OwnParameters(scale=scale) for _ in range(geometry.num_sublayers))

    def write(self, state: State, site: Site, output: Tensor) -> State:
        return (state[0] + self.sites.at(site.ordinal).scale * output,)

    def forward_flops_per_token(self) -> float:
        """The multiplication by λ."""
        return float(self.geometry.d_model * self.geometry.num_sublayers)

    def summary(self) -> str:
        return f"initial scale {self.initial_scale:g}"
