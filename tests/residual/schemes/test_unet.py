"""U-Net skips against their formula, for even and odd depths."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnres_cli.model.build import build_model
from attnres_cli.residual.protocol import Site, State
from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import VOCAB_SIZE, small_model, small_preset, tokens_and_targets

# second-half block → the first-half block whose output it takes
PARTNERS: dict[int, dict[int, int]] = {1: {}, 2: {1: 0}, 3: {2: 0}, 4: {2: 1, 3: 0}, 5: {3: 1, 4: 0}}


@torch.no_grad()
@pytest.mark.parametrize("blocks", PARTNERS)
def test_against_the_formula(blocks: int) -> None:
    model, at, tokens = stirred({"scheme": "unet"}, **{"model.transformer_blocks": blocks})
    left: dict[int, torch.Tensor] = {}
    h = at.embedding
    for block in range(blocks):
        if block in PARTNERS[blocks]:
            h = h + model.residual.get_parameter(f"blocks.{block}.weight") * left[PARTNERS[blocks][block]]
        for ordinal in (2 * block, 2 * block + 1):
            h = h + at.f[ordinal](at.norm[ordinal](h))
        left[block] = h
    assert_walks_as(model, tokens, at.final_norm(h))
    assert model.residual.own_parameters() == blocks // 2
    assert model.residual.cost().forward_flops_per_token == 2 * 16 * (blocks // 2)


@torch.no_grad()
@pytest.mark.parametrize(
    ("blocks", "saved"),
    # number of saved streams before each sublayer, when it has been read, and before `close`
    [(1, [0, 0, 0]), (4, [0, 0, 1, 1, 1, 1, 0, 0, 0]), (5, [0, 0, 1, 1, 2, 2, 1, 1, 0, 0, 0])],
)
def test_the_state_grows_and_shrinks(blocks: int, saved: list[int]) -> None:
    model = build_model(small_preset({"scheme": "unet"}, **{"model.transformer_blocks": blocks}), VOCAB_SIZE)
    names = [model.residual.state_spec(ordinal) for ordinal in range(2 * blocks + 1)]
    assert [len(each) - 1 for each in names] == saved
    assert all(each == ("stream", *(f"block {i}" for i in range(len(each) - 1))) for each in names)
    streams: list[torch.Tensor] = []

    class Names:
        """Each saved tensor is what its name says."""

        def sublayer(self, site: Site, before: State, x: Any, output: torch.Tensor, after: State) -> None:
            for name, tensor in zip(names[site.ordinal][1:], before[1:], strict=True):
                assert torch.equal(tensor, streams[int(name.removeprefix("block "))])
            if site.kind == "feed_forward":
                streams.append(after[0])

        def close(self, state: State, output: torch.Tensor) -> None:
            assert len(state) == 1

    model.walk(tokens_and_targets()[0], Names())
    assert len(streams) == blocks


@torch.no_grad()
def test_first_weights() -> None:
    assert [float(w) for w in small_model({"scheme": "unet"}).residual.parameters()] == [1.0, 1.0]
    model = small_model({"scheme": "unet", "initial_weight": 0.0})
    tokens, _ = tokens_and_targets()
    torch.testing.assert_close(model(tokens), small_model()(tokens), rtol=1e-12, atol=1e-14)
