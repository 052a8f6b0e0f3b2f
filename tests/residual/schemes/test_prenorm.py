"""The baseline against its formula."""

from __future__ import annotations

import torch

from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model


@torch.no_grad()
def test_against_the_formula() -> None:
    model, at, tokens = stirred({"scheme": "prenorm"})
    h = at.embedding
    for f, norm in zip(at.f, at.norm, strict=True):
        h = h + f(norm(h))
    assert_walks_as(model, tokens, at.final_norm(h))


def test_nothing_is_added() -> None:
    assert small_model().residual.own_parameters() == 0
