"""Over-smoothing against loops over pairs of tokens, and ranks of matrices whose ranks are known."""

from __future__ import annotations

import math

import pytest
import torch

from attnres_cli.probe.probes import smoothing
from attnres_cli.probe.spectrum import effective_rank
from tests.probe.walked import SCHEMES, all_tokens, subject, vectors, walk


def cosine(one: list[float], other: list[float]) -> float:
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.sqrt(sum(a * a for a in one)) / math.sqrt(sum(b * b for b in other))


def slow_rank(states: torch.Tensor) -> float:
    """From the eigenvalues of SᵀS instead of singular values."""
    squares = torch.linalg.eigvalsh(states.double().t() @ states.double()).clamp(min=0)
    values = [math.sqrt(float(each)) for each in squares]
    shares = [value / sum(values) for value in values]
    return math.exp(-sum(share * math.log(share) for share in shares if share > 0))


@pytest.mark.parametrize("name", SCHEMES)
def test_every_figure(name: str) -> None:
    seen = subject(name)
    with torch.no_grad():
        reference = walk(seen.model, all_tokens(seen)[0])
    found = smoothing.measure(seen).arrays
    for depth, stream in enumerate(reference.streams):
        cosines = []
        for states in stream:
            rows = vectors(states)
            pairs = [cosine(a, b) for i, a in enumerate(rows) for j, b in enumerate(rows) if i != j]
            cosines.append(sum(pairs) / len(pairs))
        assert found["token_cosine"][depth] == pytest.approx(sum(cosines) / len(cosines), rel=1e-9, abs=1e-12)
        ranks = [slow_rank(states) for states in stream]
        # Singular values of zero are 1e-16 by one way and 1e-8 by the other.
        assert found["effective_rank"][depth] == pytest.approx(sum(ranks) / len(ranks), rel=1e-5)
    for index, (one, other) in enumerate(zip(reference.inputs, reference.inputs[1:], strict=False)):
        pairs = [cosine(a, b) for a, b in zip(vectors(one), vectors(other), strict=True)]
        assert found["input_cosine"][index] == pytest.approx(sum(pairs) / len(pairs), rel=1e-9, abs=1e-12)
    assert len(found["input_cosine"]) == len(reference.inputs) - 1


def test_ranks_that_are_known() -> None:
    assert float(effective_rank(torch.eye(7))) == pytest.approx(7)
    assert float(effective_rank(torch.ones(5, 4))) == pytest.approx(1, rel=1e-6)
    assert float(effective_rank(torch.zeros(3, 3))) == 0
    two = torch.diag(torch.tensor([3.0, 1.0, 0.0]))
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert float(effective_rank(two)) == pytest.approx(math.exp(entropy))


def test_equal_states_are_alike_and_opposite_ones_are_not() -> None:
    same = torch.tensor([[1.0, 2.0], [2.0, 4.0], [0.5, 1.0]]).unsqueeze(0)
    assert smoothing.token_cosine(same).tolist() == pytest.approx([1.0])
    assert smoothing.token_cosine(torch.tensor([[[1.0, 0.0], [-3.0, 0.0]]])).tolist() == pytest.approx([-1.0])
