"""LayerScale against its formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnres_cli.model.build import build_model
from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import VOCAB_SIZE, small_model, small_preset, tokens_and_targets


@torch.no_grad()
def test_against_the_formula() -> None:
    model, at, tokens = stirred({"scheme": "layerscale"})
    h = at.embedding
    for ordinal in range(8):
        scale = model.residual.get_parameter(f"sites.{ordinal}.scale")
        output = at.f[ordinal](at.norm[ordinal](h))
        h = h + torch.stack([scale[channel] * output[..., channel] for channel in range(16)], dim=-1)
    assert_walks_as(model, tokens, at.final_norm(h))
    assert model.residual.own_parameters() == 8 * 16
    assert model.residual.cost().forward_flops_per_token == 8 * 16


@pytest.mark.parametrize(
    ("blocks", "options", "first"),
    [
        (1, {}, 0.1),
        (18, {}, 0.1),
        (19, {}, 1e-5),
        (24, {}, 1e-5),
        (25, {}, 1e-6),
        (25, {"initial_scale": 0.5}, 0.5),
    ],
)
def test_first_scale_by_depth(blocks: int, options: dict[str, Any], first: float) -> None:
    preset = small_preset({"scheme": "layerscale", **options}, **{"model.transformer_blocks": blocks})
    model = build_model(preset, VOCAB_SIZE)
    scales = [parameter.detach() for parameter in model.residual.parameters()]
    assert len(scales) == 2 * blocks
    assert all(torch.equal(scale, torch.full((16,), first)) for scale in scales)


@torch.no_grad()
def test_is_the_baseline_at_one() -> None:
    tokens, _ = tokens_and_targets()
    model = small_model({"scheme": "layerscale", "initial_scale": 1.0})
    torch.testing.assert_close(model(tokens), small_model()(tokens), rtol=1e-12, atol=1e-14)
