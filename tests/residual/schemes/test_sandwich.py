"""Sandwich norm against its formula."""

from __future__ import annotations

import pytest
import torch

from tests.residual.trunk_pieces import assert_walks_as, rms_norm, stirred
from tests.small import small_model


@torch.no_grad()
@pytest.mark.parametrize("embedding_norm", [False, True])
def test_against_the_formula(embedding_norm: bool) -> None:
    model, at, tokens = stirred({"scheme": "sandwich", "embedding_norm": embedding_norm})
    own = model.residual.get_parameter
    h = at.embedding
    if embedding_norm:
        h = rms_norm(h, own("embedding_norm.gain"), at.epsilon)
    for ordinal in range(8):
        output = at.f[ordinal](at.norm[ordinal](h))
        h = h + rms_norm(output, own(f"output_norms.{ordinal}.gain"), at.epsilon)
    assert_walks_as(model, tokens, at.final_norm(h))
    norms = 9 if embedding_norm else 8
    assert model.residual.own_parameters() == norms * 16
    assert model.residual.cost().forward_flops_per_token == norms * 4 * 16


def test_first_gains() -> None:
    model = small_model({"scheme": "sandwich", "initial_gain": 0.25, "embedding_norm": True})
    gains = {name: parameter.detach() for name, parameter in model.residual.named_parameters()}
    assert torch.equal(gains.pop("embedding_norm.gain"), torch.ones(16, dtype=torch.float64))
    assert len(gains) == 8
    assert all(torch.equal(gain, torch.full_like(gain, 0.25)) for gain in gains.values())
    default = small_model({"scheme": "sandwich"})
    assert all(torch.equal(gain, torch.ones_like(gain)) for gain in default.residual.parameters())
