"""mHC-lite against its formula."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
import torch
from torch import Tensor

from attnres_cli.errors import UserError
from tests.residual.schemes.gated_walk import walk
from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model, small_preset


@torch.no_grad()
@pytest.mark.parametrize("n", [2, 3])
def test_against_the_formula(n: int) -> None:
    """Row i of the permutation has its one at column order[i]; three streams have permutations that are not their own
    transpose."""
    model, at, tokens = stirred({"scheme": "mhc-lite", "num_streams": n}, stir=0.8)

    def constrained(logits: Tensor) -> Tensor:
        weights = logits.exp() / logits.exp().sum()
        matrix = torch.zeros(n, n, dtype=logits.dtype)
        for weight, order in zip(weights, permutations(range(n)), strict=True):
            for i in range(n):
                matrix[i, order[i]] += weight
        return matrix

    assert_walks_as(model, tokens, walk(model, at, n, constrained))


@torch.no_grad()
def test_exactly_doubly_stochastic_however_sharp() -> None:
    model = small_model({"scheme": "mhc-lite"}, stir=20.0)
    streams = torch.randn(3, 5, 4, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    carry = model.residual.weights(streams, 3).carry  # type: ignore[operator]
    assert (carry >= 0).all()
    assert (carry.sum(-1) - 1).abs().max() < 1e-14
    assert (carry.sum(-2) - 1).abs().max() < 1e-14
    assert carry.amax() - carry.amin() > 0.5


@torch.no_grad()
def test_first_matrix() -> None:
    """1 for the identity, exp(-8) for each of the 23 other orders of four streams: n! / n of all orders have a given
    element, so 5 others have a diagonal one and 6 an off-diagonal one."""
    model = small_model({"scheme": "mhc-lite"})
    streams = torch.randn(1, 1, 4, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    carry = model.residual.weights(streams, 1).carry  # type: ignore[operator]
    total = 1 + 23 * math.exp(-8)
    expected = torch.full((4, 4), 6 * math.exp(-8) / total, dtype=torch.float64)
    expected.fill_diagonal_((1 + 5 * math.exp(-8)) / total)
    torch.testing.assert_close(carry[0, 0], expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("n", "orders"), [(3, 6), (4, 24)])
def test_parameters(n: int, orders: int) -> None:
    logits = 7 * n + 8 * n + 6 * orders
    residual = small_model({"scheme": "mhc-lite", "num_streams": n}).residual
    assert residual.own_parameters() == logits * (n * 16 + 1) + 7 + 8 + 6


def test_flops() -> None:
    """As mHC, with 24 logits instead of 16, and per matrix a softmax (3) and 2 n² for each of them."""
    mixing = 128 * (7 + 6 * 4 + 8) + 48
    weighing = 128 * (8 + 7 * 4 + 8 * 4 + 6 * 24)
    assert small_model({"scheme": "mhc-lite"}).residual.cost().forward_flops_per_token == (
        mixing + weighing + 6 * 24 * (3 + 32)
    )


def test_the_table_is_not_saved() -> None:
    assert not any("table" in name for name in small_model({"scheme": "mhc-lite"}).state_dict())


def test_too_many_orders_are_refused() -> None:
    with pytest.raises(UserError, match="num_streams = 7 is out of range"):
        small_preset({"scheme": "mhc-lite", "num_streams": 7})


@torch.no_grad()
def test_the_sum_of_the_streams_is_carried_on() -> None:
    """A site whose output is zero moves the streams about, and leaves their sum."""
    model = small_model({"scheme": "mhc-lite"}, stir=2.0)
    streams = torch.randn(2, 5, 4, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    site = model.sites()[2]
    _, state = model.residual.read((streams,), site)
    (after,) = model.residual.write(state, site, torch.zeros(2, 5, 16, dtype=torch.float64))
    torch.testing.assert_close(after.sum(-2), streams.sum(-2), rtol=0, atol=1e-13)
    assert (after - streams).abs().max() > 0.1
