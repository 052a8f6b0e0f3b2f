"""Dual-stream Attention Residuals against the formula: two sets of sources, each weighed by the keys of the other."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.residual.slow_routing import Knobs, Mixer
from tests.residual.trunk_pieces import Pieces, assert_walks_as, stirred
from tests.small import small_model, tokens_and_targets


def slow(at: Pieces, own: dict[str, Tensor], sizes: tuple[int, ...]) -> Tensor:
    mixer = Mixer(Knobs(), own, at.epsilon)

    def seen(a: list[Tensor], b: list[Tensor], site: str, other: str) -> Tensor:
        if len(a) == 1:
            return a[0] + b[0]
        return mixer.weighted(a, mixer.weights(b, site)) + mixer.weighted(b, mixer.weights(a, other))

    a, b = [at.embedding / 2], [at.embedding / 2]
    ordinal = 0
    for size in sizes:
        for position in range(size):
            x = seen(a, b, f"sites.{ordinal}", f"other_sites.{ordinal}")
            y = at.f[ordinal](at.norm[ordinal](x))
            p = 1 / (1 + math.exp(-float(own[f"writes.{ordinal}.share"])))
            to_a = p * y if ordinal % 2 == 0 else (1 - p) * y
            to_b = y - to_a
            if position == 0:
                a, b = [*a, to_a], [*b, to_b]
            else:
                a, b = [*a[:-1], a[-1] + to_a], [*b[:-1], b[-1] + to_b]
            ordinal += 1
    return at.final_norm(seen(a, b, "output", "other_output"))


@torch.no_grad()
@pytest.mark.parametrize("sizes", [(1,) * 8, (3, 3, 2)])
def test_against_the_formula(sizes: tuple[int, ...]) -> None:
    model, at, tokens = stirred({"scheme": "dual-attnres", "block_sublayers": sizes[0]})
    assert_walks_as(model, tokens, slow(at, dict(model.residual.named_parameters()), sizes))


@torch.no_grad()
def test_first_shares() -> None:
    model = small_model({"scheme": "dual-attnres", "write_share": 0.75})
    share = model.residual.get_parameter("writes.5.share")
    torch.testing.assert_close(torch.sigmoid(share), torch.tensor(0.75, dtype=torch.float64))


def test_the_streams_part_ways() -> None:
    """With any share but one half a first step moves the two queries of a site apart."""
    model = small_model({"scheme": "dual-attnres", "block_sublayers": 3})
    model.loss(*tokens_and_targets()).backward()
    one, other = (model.residual.get_parameter(f"{place}.5.query").grad for place in ("sites", "other_sites"))
    assert one is not None
    assert other is not None
    assert (one - other).abs().max() > 1e-3 * one.abs().max()


def test_parameters() -> None:
    """Twice nine sites of query and gain, and one share per sublayer."""
    assert small_model({"scheme": "dual-attnres"}).residual.own_parameters() == 2 * 9 * 2 * 16 + 8
