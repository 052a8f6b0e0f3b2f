"""Highway against its formula, with scalar and vector gates."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.residual.parameters import Role
from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model, tokens_and_targets


@torch.no_grad()
@pytest.mark.parametrize("seen", ["normalised", "stream"])
@pytest.mark.parametrize("kind", ["scalar", "vector"])
def test_against_the_formula(kind: str, seen: str) -> None:
    model, at, tokens = stirred({"scheme": "highway", "gate": kind, "gate_input": seen})

    def gate(ordinal: int, x: Tensor, channel: int) -> Tensor:
        """[B, T], of one channel."""
        weight: Tensor = model.residual.get_parameter(f"sites.{ordinal}.weight")
        bias: Tensor = model.residual.get_parameter(f"sites.{ordinal}.bias")
        if kind == "vector":
            weight, bias = weight[channel], bias[channel]
        logit = bias.clone().expand(x.shape[:2])
        for i in range(16):
            logit = logit + weight[i] * x[..., i]
        return 1 / (1 + torch.exp(-logit))

    h = at.embedding
    for ordinal in range(8):
        x = at.norm[ordinal](h)
        output = at.f[ordinal](x)
        channels = []
        for channel in range(16):
            g = gate(ordinal, {"normalised": x, "stream": h}[seen], channel)
            channels.append((1 - g) * h[..., channel] + g * output[..., channel])
        h = torch.stack(channels, dim=-1)
    assert_walks_as(model, tokens, at.final_norm(h))


@pytest.mark.parametrize(
    ("kind", "parameters", "flops"),
    # w and b; the gate's product, bias and sigmoid, and 2 d for a difference and a product
    [("scalar", 8 * (16 + 1), 8 * (2 * 16 + 2 + 2 * 16)), ("vector", 8 * (256 + 16), 8 * (2 * 256 + 2 * 16 + 2 * 16))],
)
def test_size(kind: str, parameters: int, flops: float) -> None:
    model = small_model({"scheme": "highway", "gate": kind})
    assert model.residual.own_parameters() == parameters
    assert model.residual.cost().forward_flops_per_token == flops
    weight = model.parameter_groups()["residual.sites.3.weight"]
    assert weight.role == (Role.SCHEME_MATRIX if kind == "vector" else Role.SCHEME_WEIGHT)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["scalar", "vector"])
@pytest.mark.parametrize(
    ("options", "bias"), [({}, -2.0), ({"gate_bias": -0.5}, -0.5), ({"gate_input": "stream"}, -2.0)]
)
def test_starts_with_one_gate_for_all(kind: str, options: dict[str, Any], bias: float) -> None:
    """g = σ(b) everywhere, and yet no weight without a gradient."""
    model = small_model({"scheme": "highway", "gate": kind, **options})
    g = 1 / (1 + math.exp(-bias))
    tokens, targets = tokens_and_targets()
    plain = small_model()  # the same weights
    h = plain.embedding(tokens)
    for site, sublayer in plain._depth:
        h = (1 - g) * h + g * sublayer(site.norm(h))
    assert_walks_as(model, tokens, plain.final_norm(h))
    with torch.enable_grad():
        torch.autograd.backward(model.loss(tokens, targets))
    for name, parameter in model.residual.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().min() > 0, name
