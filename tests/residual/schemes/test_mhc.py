"""mHC against its formula, and Sinkhorn's iteration against plain divisions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from attnres_cli.residual.schemes.mhc import sinkhorn
from tests.residual.schemes.gated_walk import walk
from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model


def plainly(positive: Tensor, iterations: int) -> Tensor:
    """Columns, then rows, divided by their sums; one matrix [n, n]."""
    matrix = positive.clone()
    n = matrix.shape[0]
    for _ in range(iterations):
        for column in range(n):
            matrix[:, column] = matrix[:, column] / matrix[:, column].sum()
        for row in range(n):
            matrix[row] = matrix[row] / matrix[row].sum()
    return matrix


@pytest.mark.parametrize("iterations", [1, 2, 20])
def test_sinkhorn_against_divisions(iterations: int) -> None:
    logits = torch.randn(2, 3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    found = sinkhorn(logits, iterations)
    assert found.shape == logits.shape
    for b in range(2):
        for t in range(3):
            torch.testing.assert_close(found[b, t], plainly(logits[b, t].exp(), iterations), rtol=1e-12, atol=1e-14)


def some_logits(spread: float) -> Tensor:
    return spread * torch.randn(2000, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(6))


def column_error(logits: Tensor, iterations: int) -> Tensor:
    return (sinkhorn(logits, iterations).sum(-2) - 1).abs().amax(-1)


@pytest.mark.parametrize("near_identity", [True, False])
def test_sinkhorn_is_doubly_stochastic_to_a_thousandth(near_identity: bool) -> None:
    """Rows exactly, because they come last. Logits N(0, 1), or those of the first steps: N(0, 0.1²) around 0 and -8."""
    logits = some_logits(1.0)
    if near_identity:
        logits = some_logits(0.1) - 8.0 * (1.0 - torch.eye(4, dtype=torch.float64))
    assert (sinkhorn(logits, 20).sum(-1) - 1).abs().max() < 1e-14
    assert column_error(logits, 20).max() < 1e-3
    assert column_error(logits, 1).max() > column_error(logits, 20).max()


def test_sinkhorn_is_as_accurate_as_its_theory_says() -> None:
    """One iteration takes the error down by σ², σ the second singular value of the limit (Knight, 2008): 20 iterations
    are σ^20 better than 10."""
    logits = some_logits(1.0)
    sigma = torch.linalg.svdvals(sinkhorn(logits, 1000))[:, 1]
    after_10, after_20 = column_error(logits, 10), column_error(logits, 20)
    above_rounding = after_20 > 1e-13
    rate = torch.log(after_20 / after_10) / torch.log(sigma**20)
    assert above_rounding.sum() > 500
    assert rate[above_rounding].median() == pytest.approx(1.0, abs=1e-3)


def test_sinkhorn_in_float32_with_large_logits() -> None:
    """exp(100) overflows float32; logarithms do not."""
    logits = torch.tensor([[100.0, 0.0], [0.0, 100.0]])
    torch.testing.assert_close(sinkhorn(logits, 20), torch.eye(2))


@torch.no_grad()
@pytest.mark.parametrize(("n", "iterations"), [(4, 20), (3, 2)])
def test_against_the_formula(n: int, iterations: int) -> None:
    residual = {"scheme": "mhc", "num_streams": n, "sinkhorn_iterations": iterations}
    model, at, tokens = stirred(residual, stir=0.8)

    def constrained(logits: Tensor) -> Tensor:
        return plainly(logits.reshape(n, n).exp(), iterations)

    assert_walks_as(model, tokens, walk(model, at, n, constrained))


@torch.no_grad()
def test_first_weights() -> None:
    """Gates σ(±1) and 2 σ(±1), whatever the streams; the matrix is the identity but for about exp(-8)."""
    model = small_model({"scheme": "mhc"})
    streams = torch.randn(1, 2, 4, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    low, high = 1 / (1 + math.e), 1 / (1 + 1 / math.e)
    for ordinal in (1, 6):
        read, carry, write = model.residual.weights(streams, ordinal)  # type: ignore[operator]
        gates = torch.full((4,), low, dtype=torch.float64)
        gates[ordinal % 4] = high
        torch.testing.assert_close(read, gates.expand(1, 2, 4), rtol=1e-12, atol=0)
        torch.testing.assert_close(write, 2 * gates.expand(1, 2, 4), rtol=1e-12, atol=0)
        # exp(0) and exp(-8) in a symmetric matrix: rows and columns already have equal sums
        total = 1 + 3 * math.exp(-8)
        expected = torch.full((4, 4), math.exp(-8) / total, dtype=torch.float64)
        expected.fill_diagonal_(1 / total)
        torch.testing.assert_close(carry, expected.expand(1, 2, 4, 4), rtol=1e-12, atol=0)
        assert not model.residual.get_parameter(f"sites.{ordinal}.projection_res").any()
        assert model.residual.get_parameter(f"sites.{ordinal}.scale_res") == 0.01


def test_parameters() -> None:
    """φ has n d rows; with its bias n d + 1 per logit: n to read but at the first site, n to write, n² to carry but at
    the first and the last; and a scale for each of the three."""
    logits = 7 * 4 + 8 * 4 + 6 * 16
    assert small_model({"scheme": "mhc"}).residual.own_parameters() == logits * (4 * 16 + 1) + 7 + 8 + 6


def test_flops() -> None:
    """n d = 64: reading 7, carrying 6 × n, writing 8 times 128; a mean square at 8 sites and each logit 128; Sinkhorn
    6 n² per iteration at 6 sites; the sum of the streams 48."""
    mixing = 128 * (7 + 6 * 4 + 8) + 48
    weighing = 128 * (8 + 7 * 4 + 8 * 4 + 6 * 16)
    for iterations in (20, 3):
        residual = small_model({"scheme": "mhc", "sinkhorn_iterations": iterations}).residual
        assert residual.cost().forward_flops_per_token == mixing + weighing + 6 * 6 * 16 * iterations
