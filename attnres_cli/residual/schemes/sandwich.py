"""Sandwich norm, also called Peri-LN: a norm before each sublayer and a second one on its output, before the
addition."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attnres_cli.preset.schema import PositiveFloat, ResidualConfig
from attnres_cli.residual.norm import RMSNorm
from attnres_cli.residual.one_stream import OneStream
from attnres_cli.residual.protocol import Geometry, Site, State


class Config(ResidualConfig):
    """[residual] scheme = "sandwich"."""

    scheme: Literal["sandwich"] = "sandwich"
    initial_gain: PositiveFloat = Field(1.0, description="first value of the output norms' gains")
    embedding_norm: bool = Field(False, description="normalise the embedding before it becomes the stream")


class Scheme(OneStream):
    """At gain 1 every sublayer adds a vector of RMS 1, whatever its weights: the initial scale of the projections that
    write the stream has no effect, and an embedding of RMS 0.02 is soon outweighed. `initial_gain` below 1 or
    `embedding_norm` changes that balance. RMSNorm where CogView has LayerNorm.
    """

    belongs_to_sublayers = ("output_norms",)
    citation = (
        "Kim et al., Peri-LN: Revisiting Normalization Layer in the Transformer Architecture, arXiv 2502.02732; "
        "Ding et al., CogView, arXiv 2105.13290"
    )
    formula = "h ← h + Norm_out(f(Norm(h)))"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        d, epsilon = geometry.d_model, geometry.norm_epsilon
        self.output_norms = nn.ModuleList(RMSNorm(d, epsilon) for _ in range(geometry.num_sublayers))
        self.embedding_norm = RMSNorm(d, epsilon) if config.embedding_norm else None

    def open(self, embedding: Tensor) -> State:
        return super().open(embedding if self.embedding_norm is None else self.embedding_norm(embedding))

    def write(self, state: State, site: Site, output: Tensor) -> State:
        return (state[0] + self.output_norms[site.ordinal](output),)

    def initialise(self, parameter_name: str, parameter: Tensor, generator: torch.Generator) -> None:
        super().initialise(parameter_name, parameter, generator)
        if parameter_name.startswith("output_norms."):
            parameter.fill_(self.config.initial_gain)

    def forward_flops_per_token(self) -> float:
        """The added norms, 4 d each."""
        norms = self.geometry.num_sublayers + (self.embedding_norm is not None)
        return 4.0 * self.geometry.d_model * norms
