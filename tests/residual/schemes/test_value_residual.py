"""Value residual (ResFormer and SVFormer) against its formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.errors import UserError
from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model, small_preset, tokens_and_targets

HEADS: dict[str, Any] = {"model.num_heads": 4, "model.num_kv_heads": 2}
KINDS: list[dict[str, Any]] = [
    {},
    {"kind": "fixed", "first_weight": 0.3, "own_weight": 1.2},
    {"kind": "learned"},
    {"kind": "single"},
]


@torch.no_grad()
@pytest.mark.parametrize("keys", KINDS)
def test_against_the_formula(keys: dict[str, Any]) -> None:
    model, at, tokens = stirred({"scheme": "value-residual", **keys}, **HEADS)
    kind = keys.get("kind", "fixed")
    values: list[Tensor] = []

    def project(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        values.append(v)
        layer = len(values) - 1
        if layer == 0:
            return q, k, v
        if kind == "single":
            first, own = 1.0, 0.0
        elif kind == "learned":
            first, own = (float(model.residual.get_parameter(f"blocks.{layer}.{name}")) for name in ("first", "own"))
        else:
            first, own = keys.get("first_weight", 0.5), keys.get("own_weight", 0.5)
        return q, k, first * values[0] + own * v

    h = at.embedding
    for ordinal in range(8):
        x = at.norm[ordinal](h)
        h = h + (at.f[ordinal](x, project) if ordinal % 2 == 0 else at.f[ordinal](x))
    assert_walks_as(model, tokens, at.final_norm(h))


@torch.no_grad()
@pytest.mark.parametrize("kind", ["fixed", "learned"])
def test_is_the_baseline_with_its_own_values_alone(kind: str) -> None:
    tokens, _ = tokens_and_targets()
    model = small_model({"scheme": "value-residual", "kind": kind, "first_weight": 0.0, "own_weight": 1.0})
    torch.testing.assert_close(model(tokens), small_model()(tokens), rtol=1e-12, atol=1e-14)


@torch.no_grad()
def test_learned_weights_start_as_the_fixed_ones() -> None:
    tokens, _ = tokens_and_targets()
    fixed, learned = (small_model({"scheme": "value-residual", "kind": kind})(tokens) for kind in ("fixed", "learned"))
    torch.testing.assert_close(learned, fixed, rtol=1e-12, atol=1e-14)
    assert (fixed - small_model()(tokens)).abs().max() > 1e-6


def test_later_value_rows_of_svformer_get_no_gradient_and_query_rows_do() -> None:
    model = small_model({"scheme": "value-residual", "kind": "single"})
    model.loss(*tokens_and_targets()).backward()
    for layer, block in enumerate(model.blocks):
        grad = block.attention.qkv.weight.grad
        assert grad is not None
        assert grad[:16].any()
        assert bool(grad[32:].any()) == (layer == 0)


@pytest.mark.parametrize(
    ("kind", "own", "flops"), [("fixed", 0, 3 * 8 * 3), ("learned", 6, 3 * 8 * 3), ("single", 0, 0)]
)
def test_own_parameters_and_cost(kind: str, own: int, flops: int) -> None:
    residual = small_model({"scheme": "value-residual", "kind": kind}, **HEADS).residual
    assert residual.own_parameters() == own
    assert residual.cost().forward_flops_per_token == flops
    assert residual.cost().live_elements_per_token == 16 + 8


@pytest.mark.parametrize("key", ["first_weight", "own_weight"])
def test_svformer_has_no_weights(key: str) -> None:
    with pytest.raises(UserError, match="only with kind"):
        small_preset({"scheme": "value-residual", "kind": "single", key: 0.3})
