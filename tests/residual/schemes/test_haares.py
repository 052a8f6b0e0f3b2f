"""HAARES against the formula: details beside the sums of finished blocks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.residual.slow_routing import Knobs, Mixer
from tests.residual.trunk_pieces import Pieces, assert_walks_as, stirred
from tests.small import small_model, tokens_and_targets


def slow(at: Pieces, mixer: Mixer, sizes: tuple[int, ...], detail: str) -> Tensor:
    finished = [at.embedding]
    ordinal = 0
    for size in sizes:
        outputs: list[Tensor] = []
        for _ in range(size):
            seen = [*finished, sum(outputs[1:], outputs[0])] if outputs else finished
            outputs.append(at.f[ordinal](at.norm[ordinal](mixer(seen, f"sites.{ordinal}"))))
            ordinal += 1
        total = sum(outputs[1:], outputs[0])
        if size > 1:
            half = size // 2
            first, second = sum(outputs[1:half], outputs[0]), sum(outputs[half + 1 :], outputs[half])
            difference = first - second
            squares = [x.square().mean(-1, keepdim=True) + at.epsilon for x in (total, difference)]
            ratio = (squares[0] / squares[1]).sqrt()
            finished.append(total if detail == "duplicate" else difference * ratio)
        finished.append(total)
    return at.final_norm(mixer(finished, "output"))


@torch.no_grad()
@pytest.mark.parametrize("detail", ["half-split", "duplicate"])
@pytest.mark.parametrize("sizes", [(1,) * 8, (2,) * 4, (3, 3, 2), (4, 4), (5, 3), (8,)])
def test_against_the_formula(sizes: tuple[int, ...], detail: str) -> None:
    model, at, tokens = stirred({"scheme": "haares", "block_sublayers": sizes[0], "detail": detail})
    mixer = Mixer(Knobs(), dict(model.residual.named_parameters()), at.epsilon)
    assert_walks_as(model, tokens, slow(at, mixer, sizes, detail))


@torch.no_grad()
def test_what_a_site_sees() -> None:
    residual = small_model({"scheme": "haares", "block_sublayers": 4}).residual
    assert residual.source_names(3) == ("embedding", "block 1")
    assert residual.source_names(4) == ("embedding", "detail 1", "block 1")
    assert residual.source_names(8) == ("embedding", "detail 1", "block 1", "detail 2", "block 2")
    assert residual.state_spec(3)[-1] == "first half"
    assert residual.state_spec(4)[-1] == "companion(block 1)"


def test_no_gradient_runs_through_the_matching() -> None:
    """The gradient of a detail with respect to its halves is that of a difference times a number."""
    model = small_model({"scheme": "haares", "block_sublayers": 4})
    generator = torch.Generator().manual_seed(1)
    first, whole = (torch.randn(1, 1, 16, dtype=torch.float64, generator=generator) for _ in range(2))
    first.requires_grad_()
    detail = model.residual._detail(first, whole)
    known = (detail / (2 * first - whole)).detach()
    (gradient,) = torch.autograd.grad(detail[0, 0, 3], first)
    factor = float(known[0, 0, 3])
    assert gradient.count_nonzero() == 1
    torch.testing.assert_close(float(gradient[0, 0, 3]), 2 * factor)


def test_the_parameters_are_those_of_blocks_alone() -> None:
    assert small_model({"scheme": "haares", "block_sublayers": 3}).residual.own_parameters() == 9 * 2 * 16


@torch.no_grad()
def test_blocks_of_one_sublayer_have_no_details() -> None:
    tokens, _ = tokens_and_targets()
    haares = small_model({"scheme": "haares", "block_sublayers": 1}, stir=0.4)
    full = small_model({"scheme": "attnres-full"}, stir=0.4)
    torch.testing.assert_close(haares(tokens), full(tokens), rtol=1e-12, atol=1e-14)
