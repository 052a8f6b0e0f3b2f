"""Multi-head Attention Residuals against the slow loop."""

from __future__ import annotations

import pytest
import torch

from tests.residual import slow_routing
from tests.residual.slow_routing import Knobs, Mixer
from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model, tokens_and_targets


@torch.no_grad()
@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16])
def test_against_the_slow_loop(heads: int) -> None:
    model, at, tokens = stirred({"scheme": "attnres-multi-head", "depth_heads": heads, "block_sublayers": 3})
    mixer = Mixer(Knobs(depth_heads=heads), dict(model.residual.named_parameters()), at.epsilon)
    assert_walks_as(model, tokens, slow_routing.walk(at, mixer, (3, 3, 2)))


@torch.no_grad()
def test_four_heads_by_default_and_no_parameter_more() -> None:
    default, four = small_model({"scheme": "attnres-multi-head"}, stir=0.5), {"depth_heads": 4, "num_blocks": 8}
    same = small_model({"scheme": "attnres-block", **four}, stir=0.5)
    tokens, _ = tokens_and_targets()
    assert torch.equal(default(tokens), same(tokens))
    assert default.residual.own_parameters() == small_model({"scheme": "attnres-full"}).residual.own_parameters()
