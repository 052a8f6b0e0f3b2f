"""Role-decoupled Attention Residuals against the formula, with a route of its own for the values."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.residual.slow_routing import Knobs, Mixer
from tests.residual.trunk_pieces import Pieces, assert_walks_as, stirred
from tests.small import small_model


def slow(at: Pieces, mixer: Mixer, sizes: tuple[int, ...]) -> Tensor:
    sources = [at.embedding]
    ordinal = 0
    for size in sizes:
        partial: Tensor | None = None
        for _ in range(size):
            seen = sources if partial is None else [*sources, partial]
            x = at.norm[ordinal](mixer(seen, f"sites.{ordinal}"))
            if ordinal % 2 == 0:
                values = at.norm[ordinal](mixer(seen, f"value_sites.{ordinal // 2}"))
                y = at.f[ordinal]({"q": x, "k": x, "v": values})
            else:
                y = at.f[ordinal](x)
            partial = y if partial is None else partial + y
            ordinal += 1
        assert partial is not None
        sources.append(partial)
    return at.final_norm(mixer(sources, "output"))


@torch.no_grad()
@pytest.mark.parametrize("sizes", [(1,) * 8, (3, 3, 2)])
def test_against_the_formula(sizes: tuple[int, ...]) -> None:
    model, at, tokens = stirred({"scheme": "attnres-role-decoupled", "block_sublayers": sizes[0]})
    mixer = Mixer(Knobs(), dict(model.residual.named_parameters()), at.epsilon)
    assert_walks_as(model, tokens, slow(at, mixer, sizes))


def test_one_route_more_per_attention() -> None:
    """d = 16: nine sites and four value routes, a query and a gain each."""
    assert small_model({"scheme": "attnres-role-decoupled"}).residual.own_parameters() == (9 + 4) * 2 * 16
