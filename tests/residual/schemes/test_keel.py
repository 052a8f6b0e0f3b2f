"""KEEL against its formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.residual.trunk_pieces import assert_walks_as, rms_norm, stirred
from tests.small import small_model


@torch.no_grad()
@pytest.mark.parametrize(
    ("blocks", "options", "alpha"), [(4, {}, 8.0), (1, {}, 2.0), (4, {"alpha": 1.7}, 1.7)], ids=["L", "L = 2", "given"]
)
def test_against_the_formula(blocks: int, options: dict[str, Any], alpha: float) -> None:
    """The outer norm of the last sublayer is the final norm."""
    model, at, tokens = stirred({"scheme": "keel", **options}, **{"model.transformer_blocks": blocks})
    last = 2 * blocks - 1
    h = at.embedding
    for ordinal in range(last + 1):
        total = alpha * h + at.f[ordinal](at.norm[ordinal](h))
        if ordinal < last:
            h = rms_norm(total, model.residual.get_parameter(f"outer_norms.{ordinal}.gain"), at.epsilon)
        else:
            h = at.final_norm(total)
    assert_walks_as(model, tokens, h)
    assert model.residual.own_parameters() == last * 16
    assert model.residual.cost().forward_flops_per_token == (last + 1) * 16 + last * 4 * 16


def test_outer_gains_start_at_one() -> None:
    gains = [gain.detach() for gain in small_model({"scheme": "keel"}).residual.parameters()]
    assert len(gains) == 7
    assert all(torch.equal(gain, torch.ones(16, dtype=torch.float64)) for gain in gains)
