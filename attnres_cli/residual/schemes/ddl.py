"""Deep Delta Learning in its scalar-value form: a sublayer gives a direction, along which the stream forgets what it
held and takes a new value."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from attnres_cli.preset.schema import PositiveFloat, ResidualConfig
from attnres_cli.residual.one_stream import OneStream
from attnres_cli.residual.parameters import Own, OwnParameters, Places, constant, inverse_sigmoid, zeros
from attnres_cli.residual.precision import widen
from attnres_cli.residual.protocol import Geometry, Site, State, SublayerInput


class Config(ResidualConfig):
    """[residual] scheme = "ddl"."""

    scheme: Literal["ddl"] = "ddl"
    initial_beta: Annotated[float, Field(gt=0, lt=2)] = Field(
        1.0, description="first value of the step size β: 1 replaces what the stream holds along k, below it keeps some"
    )
    value_scale: PositiveFloat = Field(4.0, description="largest value v that is written along k; half of it at first")


class Scheme(OneStream):
    """k = f(Norm(x)) scaled to length 1: y / sqrt(|y|² + d ε) with the model's norm ε, which is RMSNorm without gain
    over sqrt(d). β ∈ (0, 2) is computed from Norm(x), v ∈ (0, value_scale) from x itself, both before the sublayer,
    so between `read` and `write` the state is the stream and the two numbers, each [B, T].

    Both weight vectors start at zero: every site starts with the same β and v. A sublayer's output has no size here,
    only a direction, so the model is not PreNorm at first. β = 1 is the published first value; each site then
    overwrites one direction, and with more sites than channels little is left of the embedding. A small β keeps it.
    """

    citation = "Zhang et al., Deep Delta Learning, arXiv 2601.00417"
    formula = "x ← x + β (v - kᵀx) k,  k = f(Norm(x)) / |f(Norm(x))|,  β = 2σ(w_β·Norm(x) + b_β),  v = 4σ(w_v·x + b_v)"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        d = geometry.d_model
        beta_bias = Own((), constant(inverse_sigmoid(config.initial_beta / 2)))
        self.sites = Places(
            OwnParameters(
                beta_weight=Own((d,), zeros),
                beta_bias=beta_bias,
                value_weight=Own((d,), zeros),
                value_bias=Own((), zeros),
            )
            for _ in range(geometry.num_sublayers)
        )

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        (x,) = state
        own = self.sites.at(site.ordinal)
        normed = site.norm(x)
        beta = 2 * torch.sigmoid((widen(normed) * own.beta_weight).sum(-1) + own.beta_bias)
        value = self.config.value_scale * torch.sigmoid((x * own.value_weight).sum(-1) + own.value_bias)
        return normed, (x, beta, value)

    def write(self, state: State, site: Site, output: Tensor) -> State:
        x, beta, value = state
        output = widen(output)
        square = output.square().sum(-1, keepdim=True)
        k = output * torch.rsqrt(square + self.geometry.d_model * self.geometry.norm_epsilon)
        step = beta * (value - (k * x).sum(-1))
        return (torch.addcmul(x, step.unsqueeze(-1), k),)

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        """From each sublayer's own `read` on."""
        return ("stream",) if ordinal == self.geometry.num_sublayers else ("stream", "beta", "value")

    def forward_flops_per_token(self) -> float:
        """Per site three dot products (β, v, kᵀx), the norm of k (4 d) and the multiply-add along it: 12 d."""
        return 12.0 * self.geometry.d_model * self.geometry.num_sublayers
