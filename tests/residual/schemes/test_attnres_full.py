"""Full Attention Residuals against Eq. 1-4, written token by token in plain numbers (slow_loop.py).

The knobs have a slow loop of their own (test_depth_knobs.py).
"""

from __future__ import annotations

import torch

from tests.residual import slow_loop
from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model


@torch.no_grad()
def test_against_the_formula() -> None:
    model, at, tokens = stirred({"scheme": "attnres-full"})
    own = dict(model.residual.named_parameters())
    sites = [*(f"sites.{ordinal}" for ordinal in range(8)), "output"]
    sublayers = [lambda h, f=f, norm=norm: f(norm(h)) for f, norm in zip(at.f, at.norm, strict=True)]
    queries, gains = [own[f"{site}.query"] for site in sites], [own[f"{site}.key_gain"] for site in sites]
    expected, _ = slow_loop.full(at.embedding, sublayers, queries, gains, at.epsilon)
    assert_walks_as(model, tokens, at.final_norm(expected))


def test_parameters() -> None:
    """A query and a gain at each of L + 1 sites."""
    assert small_model({"scheme": "attnres-full"}).residual.own_parameters() == 9 * 2 * 16
