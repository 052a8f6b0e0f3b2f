"""Highway: a gate that looks at the stream divides between carrying it on and taking the sublayer's output."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from attnres_cli.preset.schema import ResidualConfig
from attnres_cli.residual.holding import held
from attnres_cli.residual.one_stream import OneStream
from attnres_cli.residual.parameters import Own, OwnParameters, Places, Role, constant, zeros
from attnres_cli.residual.precision import widen
from attnres_cli.residual.protocol import Geometry, Site, State, SublayerInput


class Config(ResidualConfig):
    """[residual] scheme = "highway"."""

    scheme: Literal["highway"] = "highway"
    gate: Literal["scalar", "vector"] = Field(
        "scalar", description="one gate per token and sublayer, or one per channel (a d × d matrix each)"
    )
    gate_input: Literal["normalised", "stream"] = Field(
        "normalised", description="what the gates see: what the sublayer sees, or the stream as it is (the paper's way)"
    )
    gate_bias: float = Field(-2.0, description="first value of the gates' bias; the lower, the more is carried on")


class Scheme(OneStream):
    """g = σ(W_g Norm(h) + b_g), W_g in R^d or R^{d × d}; with gate_input = "stream" σ(W_g h + b_g), as in the paper.

    The paper's layers normalise nothing. Here the stream begins at the size of the embedding and may take any other,
    and the default's gates see inputs of one size at every depth. W_g starts at zero, so the gate is σ(b_g) for every
    token at first (0.12 at -2) and learns from the first step on. The paper takes biases of -1 to -4, lower for deeper
    models: the share of the embedding that reaches the end is (1 - g)^L at first.
    """

    citation = "Srivastava et al., Highway Networks, arXiv 1505.00387"
    formula = "h ← (1 - g) ⊙ h + g ⊙ f(Norm(h)),  g = σ(W_g Norm(h) + b_g)"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        d = geometry.d_model
        if config.gate == "scalar":
            own = {"weight": Own((d,), zeros), "bias": Own((), constant(config.gate_bias))}
        else:
            own = {"weight": Own((d, d), zeros, Role.SCHEME_MATRIX), "bias": Own((d,), constant(config.gate_bias))}
        self.sites = Places(OwnParameters(**own) for _ in range(geometry.num_sublayers))

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        """The gate [B, T, 1] or [B, T, d] is computed here, where its input is, and kept for `write`."""
        stream = state[0]
        normalised = site.norm(stream)
        seen = normalised if self.config.gate_input == "normalised" else stream
        return normalised, (stream, held(self._gate(seen, self.sites.at(site.ordinal))))

    def write(self, state: State, site: Site, output: Tensor) -> State:
        stream, gate = state
        return (stream + gate * (output - stream),)

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        """The gate lives from a sublayer's `read` to its `write`; nothing but the stream passes on."""
        return ("stream", "gate") if ordinal < self.geometry.num_sublayers else ("stream",)

    def forward_flops_per_token(self) -> float:
        """Per sublayer the gate's product (2 per weight), bias and sigmoid, and a difference and a product with the
        gate (2 d)."""
        d = self.geometry.d_model
        gates = 1 if self.config.gate == "scalar" else d
        return float(self.geometry.num_sublayers * (2 * gates * d + 2 * gates + 2 * d))

    def _gate(self, seen: Tensor, own: OwnParameters) -> Tensor:
        if self.config.gate == "scalar":
            return torch.sigmoid((seen * own.weight).sum(-1, keepdim=True) + own.bias)
        return torch.sigmoid(widen(F.linear(seen, own.weight)) + own.bias)
