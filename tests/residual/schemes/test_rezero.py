"""ReZero against its formula."""

from __future__ import annotations

import torch

from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model, tokens_and_targets


@torch.no_grad()
def test_against_the_formula() -> None:
    model, at, tokens = stirred({"scheme": "rezero"})
    weights = [float(model.residual.get_parameter(f"sites.{ordinal}.weight")) for ordinal in range(8)]
    h = at.embedding
    for ordinal in range(8):
        h = h + weights[ordinal] * at.f[ordinal](at.norm[ordinal](h))
    assert_walks_as(model, tokens, at.final_norm(h))


@torch.no_grad()
def test_starts_as_the_embedding_alone() -> None:
    model = small_model({"scheme": "rezero"})
    tokens, _ = tokens_and_targets()
    assert torch.equal(model.walk(tokens), model.final_norm(model.embedding(tokens)))
    assert model.residual.own_parameters() == 8


@torch.no_grad()
def test_is_the_baseline_at_one() -> None:
    tokens, _ = tokens_and_targets()
    model = small_model({"scheme": "rezero", "initial_weight": 1.0})
    torch.testing.assert_close(model(tokens), small_model()(tokens), rtol=1e-12, atol=1e-14)
