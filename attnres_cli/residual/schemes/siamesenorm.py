"""SiameseNorm: a stream that is normalised before every addition (post-norm) and one that never is (pre-norm) share
the same sublayers."""

from __future__ import annotations

import math
from typing import Literal, cast

from pydantic import Field
from torch import Tensor, nn

from attnres_cli.preset.schema import ResidualConfig
from attnres_cli.residual.norm import RMSNorm
from attnres_cli.residual.precision import widen
from attnres_cli.residual.protocol import Cost, Geometry, Norm, Residual, Site, State, SublayerInput


class Config(ResidualConfig):
    """[residual] scheme = "siamesenorm"."""

    scheme: Literal["siamesenorm"] = "siamesenorm"
    final: Literal["both", "pre", "post"] = Field(
        "both", description="what the final norm sees: the sum of both streams, each normalised, or one of them alone"
    )


class Pair(nn.Module):
    """The norms of both streams at one place: 2 d parameters."""

    def __init__(self, d_model: int, epsilon: float) -> None:
        super().__init__()
        self.post = RMSNorm(d_model, epsilon)
        self.pre = RMSNorm(d_model, epsilon)


class Scheme(Residual):
    """State: x (post-norm) and y (pre-norm), both the embedding at first. Before each sublayer x is normalised and
    stays so; the sublayer sees the site's norm of the sum of x and the normalised y. c = sqrt(2 i) in transformer block
    i (from 1), for both of its sublayers.

    The three norms of a sublayer and the final combination are those of the published vision code (its LayerNorm is
    the trunk's RMSNorm here); the paper's language models leave single norms of them out. The model never equals
    PreNorm, not even at first: two of its streams are added.
    """

    citation = "Li et al., SiameseNorm, arXiv 2602.08064"
    formula = "x ← Norm_x(x);  z = f(Norm(x + Norm_y(y)));  x ← x + z/c_l;  y ← y + z,  c_l = sqrt(2 i) in block i"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        d, epsilon = geometry.d_model, geometry.norm_epsilon
        self.sites = nn.ModuleList(Pair(d, epsilon) for _ in range(geometry.num_sublayers))
        self.output = Pair(d, epsilon) if config.final == "both" else None

    def open(self, embedding: Tensor) -> State:
        stream = widen(embedding)
        return stream, stream

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        x, y = state
        norms = cast(Pair, self.sites[site.ordinal])
        x = norms.post(x)
        return site.norm(x + norms.pre(y)), (x, y)

    def write(self, state: State, site: Site, output: Tensor) -> State:
        x, y = state
        return x + widen(output) / math.sqrt(2 * (site.layer + 1)), y + output

    def close(self, state: State, final_norm: Norm) -> Tensor:
        x, y = state
        if self.output is not None:
            return final_norm(self.output.post(x) + self.output.pre(y))
        return final_norm(y if self.config.final == "pre" else x)

    def stream(self, state: State) -> Tensor:
        """The pre-norm stream y, which is the embedding plus all sublayer outputs."""
        return state[1]

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        return "post-norm stream", "pre-norm stream"

    def cost(self) -> Cost:
        """Per sublayer two norms (4 d each), the sum of the streams, z/c and the second addition (d each); at the end
        two norms and a sum where both streams count."""
        d = self.geometry.d_model
        flops = 11.0 * d * self.geometry.num_sublayers + (9.0 * d if self.config.final == "both" else 0.0)
        return Cost(self.own_parameters(), flops, 2.0 * d)
