"""x0 mixing against its formula."""

from __future__ import annotations

import pytest
import torch

from tests.residual.trunk_pieces import assert_walks_as, rms_norm, stirred
from tests.small import small_model, tokens_and_targets


@torch.no_grad()
@pytest.mark.parametrize("normalised", [False, True])
def test_against_the_formula(normalised: bool) -> None:
    model, at, tokens = stirred({"scheme": "x0-lambda", "normalise_embedding": normalised})
    own = model.residual.get_parameter
    x0 = rms_norm(at.embedding, None, at.epsilon) if normalised else at.embedding
    h = x0
    for block in range(4):
        h = own(f"blocks.{block}.stream_weight") * h + own(f"blocks.{block}.embedding_weight") * x0
        for ordinal in (2 * block, 2 * block + 1):
            h = h + at.f[ordinal](at.norm[ordinal](h))
    assert_walks_as(model, tokens, at.final_norm(h))


@torch.no_grad()
def test_starts_as_the_baseline() -> None:
    model = small_model({"scheme": "x0-lambda"})
    tokens, _ = tokens_and_targets()
    torch.testing.assert_close(model(tokens), small_model()(tokens), rtol=1e-12, atol=1e-14)
    assert model.residual.own_parameters() == 8
    assert model.residual.cost().forward_flops_per_token == 4 * 3 * 16


@torch.no_grad()
def test_starts_as_the_baseline_of_normalised_embeddings() -> None:
    """Which is no other scheme; the norm costs a mean square and a product per channel, and no parameter."""
    model = small_model({"scheme": "x0-lambda", "normalise_embedding": True})
    tokens, _ = tokens_and_targets()
    plain = small_model()  # the same weights
    h = rms_norm(plain.embedding(tokens), None, plain.config.norm_epsilon)
    for site, sublayer in plain._depth:
        h = h + sublayer(site.norm(h))
    assert_walks_as(model, tokens, plain.final_norm(h))
    assert model.residual.equals_at_initialisation is None
    assert model.residual.own_parameters() == 8
    assert model.residual.cost().forward_flops_per_token == 4 * 3 * 16 + 3 * 16
