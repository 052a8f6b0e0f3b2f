"""ReZero: every sublayer's output is weighed by one learned number that starts at zero, so the model starts as the
embedding alone."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from attnres_cli.preset.schema import ResidualConfig
from attnres_cli.residual.arms import BASELINE
from attnres_cli.residual.one_stream import OneStream
from attnres_cli.residual.parameters import Own, OwnParameters, Places, constant
from attnres_cli.residual.precision import widen
from attnres_cli.residual.protocol import Geometry, Site, State


class Config(ResidualConfig):
    """[residual] scheme = "rezero"."""

    scheme: Literal["rezero"] = "rezero"
    initial_weight: float = Field(0.0, description="first value of every sublayer's weight")


class Scheme(OneStream):
    """The norm before each sublayer stays, as in every scheme here; the paper's own models have none."""

    citation = "Bachlechner et al., ReZero is All You Need, arXiv 2003.04887"
    formula = "h ← h + α_l f(Norm(h)),  α_l = 0 at first"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        if config.initial_weight == 1:
            self.equals_at_initialisation = BASELINE
        weight = Own((), constant(config.initial_weight))
        self.sites = Places(OwnParameters(weight=weight) for _ in range(geometry.num_sublayers))

    def write(self, state: State, site: Site, output: Tensor) -> State:
        return (state[0] + self.sites.at(site.ordinal).weight * widen(output),)

    def forward_flops_per_token(self) -> float:
        return float(self.geometry.d_model * self.geometry.num_sublayers)
