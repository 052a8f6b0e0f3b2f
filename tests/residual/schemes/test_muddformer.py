"""MUDDFormer against its formula, one token and one stream at a time."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.model.trunk import LanguageModel
from tests.residual.trunk_pieces import assert_walks_as, rms_norm, stirred
from tests.small import small_model, tokens_and_targets

KEYS: list[dict[str, Any]] = [{}, {"hidden_multiplier": 2}, {"expand_last": False}]


def gelu(x: Tensor) -> Tensor:
    """x Φ(x) with the exact normal distribution."""
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def mixed(model: LanguageModel, outputs: list[Tensor], streams: int) -> list[Tensor]:
    """Σ_j A^c_j X_j for each stream c, from the network after len(outputs) - 1 blocks; rows of W_2 by stream."""
    count = len(outputs)
    w1, w2, bias = (model.residual.get_parameter(f"mixers.{count - 2}.{name}") for name in ("w1", "w2", "bias"))
    hidden = gelu(rms_norm(outputs[-1], None, model.config.norm_epsilon) @ w1.T)
    result = []
    for c in range(streams):
        total = torch.zeros_like(outputs[0])
        for j in range(count):
            weight = hidden @ w2[c * count + j] + bias[c, j]
            total = total + weight[:, :, None] * outputs[j]
        result.append(total)
    return result


@torch.no_grad()
@pytest.mark.parametrize("keys", KEYS)
def test_against_the_formula(keys: dict[str, Any]) -> None:
    model, at, tokens = stirred({"scheme": "muddformer", **keys})
    epsilon = model.config.norm_epsilon
    outputs = [at.embedding]
    for layer in range(4):
        if layer == 0:
            x: Any = at.norm[0](at.embedding)
            r = at.embedding
        else:
            q, k, v, r = mixed(model, outputs, 4)
            gains = [model.residual.get_parameter(f"{name}_norms.{layer - 1}.gain") for name in ("key", "value")]
            x = {
                "q": at.norm[2 * layer](q),
                "k": rms_norm(k, gains[0], epsilon),
                "v": rms_norm(v, gains[1], epsilon),
            }
        h = r + at.f[2 * layer](x)
        outputs.append(h + at.f[2 * layer + 1](at.norm[2 * layer + 1](h)))
    assert_walks_as(model, tokens, at.final_norm(mixed(model, outputs, 1)[0]))


@torch.no_grad()
@pytest.mark.parametrize("keys", KEYS)
def test_starts_as_the_baseline(keys: dict[str, Any]) -> None:
    tokens, _ = tokens_and_targets()
    model = small_model({"scheme": "muddformer", **keys})
    torch.testing.assert_close(model(tokens), small_model()(tokens), rtol=1e-12, atol=1e-13)


@torch.no_grad()
def test_first_values() -> None:
    """W_1 has the variance of its fan-in, so that its products with a vector of rms 1 have variance 1."""
    model = small_model({"scheme": "muddformer", "hidden_multiplier": 40})
    w1 = torch.cat([model.residual.get_parameter(f"mixers.{block}.w1").flatten() for block in range(4)])
    assert float(w1.std()) == pytest.approx(1 / 4, rel=0.02)
    for block in range(4):
        assert not model.residual.get_parameter(f"mixers.{block}.w2").any()
        bias = model.residual.get_parameter(f"mixers.{block}.bias")
        assert bias.tolist() == [[0.0] * (block + 1) + [1.0]] * (1 if block == 3 else 4)


@pytest.mark.parametrize(
    ("keys", "hidden"),
    [
        ({}, [4 * 2, 4 * 3, 4 * 4, 4 * 5]),
        ({"hidden_multiplier": 2}, [8 * 2, 8 * 3, 8 * 4, 8 * 5]),
        ({"expand_last": False}, [4 * 2, 4 * 3, 4 * 4, 5]),
    ],
)
def test_own_parameters_and_flops(keys: dict[str, Any], hidden: list[int]) -> None:
    residual = small_model({"scheme": "muddformer", **keys}).residual
    weights = [4 * 2, 4 * 3, 4 * 4, 5]
    parameters = flops = 2 * 16 * 3  # of key and value norms
    flops = 2 * 4 * 16 * 3
    for h, w in zip(hidden, weights, strict=True):
        parameters += 16 * h + h * w + w
        flops += 4 * 16 + 2 * 16 * h + h + 2 * h * w + w + 2 * 16 * w
    assert residual.own_parameters() == parameters
    assert residual.cost().forward_flops_per_token == flops
