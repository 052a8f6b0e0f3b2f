"""PostNorm against its formula."""

from __future__ import annotations

import torch

from tests.residual.trunk_pieces import assert_walks_as, stirred


@torch.no_grad()
def test_against_the_formula() -> None:
    """h ← Norm(h + f(h)); the norm after sublayer l is the one that belongs to l + 1, the last one the final norm."""
    model, at, tokens = stirred({"scheme": "postnorm"})
    after = [*at.norm[1:], at.final_norm]
    h = at.norm[0](at.embedding)
    for ordinal in range(8):
        h = after[ordinal](h + at.f[ordinal](h))
    assert_walks_as(model, tokens, h)


def test_adds_nothing() -> None:
    model, _, _ = stirred({"scheme": "postnorm"})
    assert model.residual.own_parameters() == 0
    assert model.residual.cost().forward_flops_per_token == 0
    assert model.dead_parameters() == {}
