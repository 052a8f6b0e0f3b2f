"""LAuReL's variants against their formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.errors import UserError
from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model, small_preset, tokens_and_targets

VARIANTS: list[dict[str, Any]] = [
    {},
    *({"variant": "rw", "normalise": how} for how in ("softmax", "sigmoid", "none")),
    {"variant": "lr", "rank": 3},
    {"variant": "pa", "rank": 3},
    {"variant": "rw+lr", "rank": 3, "normalise": "none"},
    {"variant": "rw+pa", "rank": 3, "normalise": "sigmoid"},
]


@torch.no_grad()
@pytest.mark.parametrize("keys", VARIANTS, ids=str)
def test_against_the_formula(keys: dict[str, Any]) -> None:
    model, at, tokens = stirred({"scheme": "laurel", **keys})
    parts = keys.get("variant", "rw+lr").split("+")

    def own(ordinal: int, name: str) -> Tensor:
        return model.residual.get_parameter(f"sites.{ordinal}.{name}")

    streams = [at.embedding]
    for ordinal in range(8):
        x = streams[-1]
        f = at.f[ordinal](at.norm[ordinal](x))
        skip = x
        if "lr" in parts:
            skip = skip + (x @ own(ordinal, "down").T) @ own(ordinal, "up").T
        if "pa" in parts:
            for j in range(ordinal):
                low = (streams[j] @ own(ordinal, "down").T) @ own(ordinal, "up").T
                skip = skip + float(own(ordinal, "gamma")[j]) * low
        alpha = beta = 1.0
        if "rw" in parts:
            alpha, beta = float(own(ordinal, "alpha")), float(own(ordinal, "beta"))
            how = keys.get("normalise", "softmax")
            if how == "softmax":
                total = math.exp(alpha) + math.exp(beta)
                alpha, beta = 2 * math.exp(alpha) / total, 2 * math.exp(beta) / total
            elif how == "sigmoid":
                alpha, beta = 2 / (1 + math.exp(-alpha)), 2 / (1 + math.exp(-beta))
        streams.append(alpha * f + beta * skip)
    assert_walks_as(model, tokens, at.final_norm(streams[-1]))


@torch.no_grad()
@pytest.mark.parametrize("keys", VARIANTS, ids=str)
def test_starts_as_the_baseline(keys: dict[str, Any]) -> None:
    tokens, _ = tokens_and_targets()
    model = small_model({"scheme": "laurel", **keys})
    torch.testing.assert_close(model(tokens), small_model()(tokens), rtol=1e-12, atol=1e-13)


@torch.no_grad()
def test_first_values_of_the_map_and_of_the_mixture() -> None:
    model = small_model({"scheme": "laurel", "variant": "pa", "rank": 16}, **{"model.d_model": 64})
    downs = torch.cat([model.residual.get_parameter(f"sites.{ordinal}.down").flatten() for ordinal in range(1, 8)])
    assert float(downs.std()) == pytest.approx(1 / 8, rel=0.03)
    for ordinal in range(1, 8):
        gamma = model.residual.get_parameter(f"sites.{ordinal}.gamma")
        assert gamma.tolist() == pytest.approx([1 / ordinal] * ordinal)


@pytest.mark.parametrize(
    ("keys", "own", "flops", "streams"),
    [
        ({}, 8 * (2 + 2 * 16), 8 * (3 * 16 + 4 * 16 + 16), 1),
        ({"variant": "rw"}, 8 * 2, 8 * 3 * 16, 1),
        ({"variant": "lr", "rank": 3}, 8 * 2 * 3 * 16, 8 * (4 * 16 * 3 + 16), 1),
        ({"variant": "pa", "rank": 3}, 7 * 2 * 3 * 16 + 28, 7 * (4 * 16 * 3 + 16) + 2 * 16 * 28, 9),
        ({"variant": "rw+pa"}, 16 + 7 * 2 * 16 + 28, 8 * 3 * 16 + 7 * (4 * 16 + 16) + 2 * 16 * 28, 9),
    ],
)
def test_own_parameters_and_cost(keys: dict[str, Any], own: int, flops: int, streams: int) -> None:
    residual = small_model({"scheme": "laurel", **keys}).residual
    assert residual.own_parameters() == own
    assert residual.cost().forward_flops_per_token == flops
    assert residual.cost().live_elements_per_token == 16 * streams


def test_the_rank_follows_the_width_and_is_never_zero() -> None:
    for width, rank in ((16, 1), (8, 1), (64, 4)):
        residual = small_model({"scheme": "laurel"}, **{"model.d_model": width}).residual
        assert residual.get_parameter("sites.0.down").shape == (rank, width)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"variant": "lr", "rank": 17}, "rank = 17 is more than the model's width 16"),
        ({"variant": "rw", "rank": 2}, "only with variant"),
        ({"variant": "lr", "normalise": "none"}, "only with variant"),
    ],
)
def test_what_does_nothing_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        small_preset({"scheme": "laurel", **keys})
