"""Block Attention Residuals against Eq. 5-6, written token by token in plain numbers (slow_loop.py)."""

from __future__ import annotations

import pytest
import torch

from tests.residual import slow_loop
from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model


@torch.no_grad()
@pytest.mark.parametrize("sizes", [(3, 3, 2), (4, 4), (8,)])
def test_against_the_formula(sizes: tuple[int, ...]) -> None:
    model, at, tokens = stirred({"scheme": "attnres-block", "block_sublayers": sizes[0]})
    own = dict(model.residual.named_parameters())
    sites = [*(f"sites.{ordinal}" for ordinal in range(8)), "output"]
    sublayers = [lambda h, f=f, norm=norm: f(norm(h)) for f, norm in zip(at.f, at.norm, strict=True)]
    queries, gains = [own[f"{site}.query"] for site in sites], [own[f"{site}.key_gain"] for site in sites]
    expected, _ = slow_loop.block(at.embedding, sublayers, queries, gains, at.epsilon, sizes)
    assert_walks_as(model, tokens, at.final_norm(expected))


def test_parameters() -> None:
    """However the blocks are cut: a query and a gain at each of L + 1 sites."""
    for size in (1, 3, 8):
        assert small_model({"scheme": "attnres-block", "block_sublayers": size}).residual.own_parameters() == 9 * 2 * 16
