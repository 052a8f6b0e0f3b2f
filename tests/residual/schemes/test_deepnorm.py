"""DeepNorm against its formula, and the initial weights that belong to it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model


@torch.no_grad()
@pytest.mark.parametrize(
    ("blocks", "options", "alpha"),
    [(4, {}, 8**0.25), (2, {}, 4**0.25), (4, {"alpha": 3.5}, 3.5)],  # (2 M)^(1/4)
)
def test_against_the_formula(blocks: int, options: dict[str, Any], alpha: float) -> None:
    model, at, tokens = stirred({"scheme": "deepnorm", **options}, **{"model.transformer_blocks": blocks})
    after = [*at.norm[1:], at.final_norm]
    h = at.norm[0](at.embedding)
    for ordinal in range(2 * blocks):
        h = after[ordinal](alpha * h + at.f[ordinal](h))
    assert_walks_as(model, tokens, h)
    assert model.residual.own_parameters() == 0
    assert model.residual.cost().forward_flops_per_token == 16 * 2 * blocks


@torch.no_grad()
@pytest.mark.parametrize(
    ("options", "beta"),
    [({}, 32**-0.25), ({"beta": 0.7}, 0.7)],  # (8 M)^(-1/4) at M = 4
)
def test_initial_weights(options: dict[str, Any], beta: float) -> None:
    """Against the same draws of the baseline: β on all but query and key, and no 1 / sqrt(8) on what is written."""
    scaled = dict(small_model({"scheme": "deepnorm", **options}).named_parameters())
    plain = dict(small_model().named_parameters())

    def assert_scaled(name: str, factor: float, rows: slice = slice(None)) -> None:
        torch.testing.assert_close(scaled[name][rows], factor * plain[name][rows], rtol=1e-12, atol=0)

    for block in range(4):
        attention, feed_forward = f"blocks.{block}.attention", f"blocks.{block}.feed_forward"
        assert_scaled(f"{attention}.qkv.weight", 1.0, slice(0, 32))  # query and key, 16 rows each
        assert_scaled(f"{attention}.qkv.weight", beta, slice(32, 48))
        assert_scaled(f"{attention}.output.weight", beta * 8**0.5)
        assert_scaled(f"{feed_forward}.gate_up.weight", beta)
        assert_scaled(f"{feed_forward}.down.weight", beta * 8**0.5)
    assert torch.equal(scaled["embedding.weight"], plain["embedding.weight"])
