"""x0 mixing against its formula."""

from __future__ import annotations

import torch

from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model, tokens_and_targets


@torch.no_grad()
def test_against_the_formula() -> None:
    model, at, tokens = stirred({"scheme": "x0-lambda"})
    own = model.residual.get_parameter
    h = at.embedding
    for block in range(4):
        h = own(f"blocks.{block}.stream_weight") * h + own(f"blocks.{block}.embedding_weight") * at.embedding
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
