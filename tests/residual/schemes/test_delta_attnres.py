"""Delta Attention Residuals against the formula: the stream, plus a mixture of its updates."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.errors import UserError
from tests.residual.slow_routing import Knobs, Mixer
from tests.residual.trunk_pieces import Pieces, assert_walks_as, stirred
from tests.small import small_model, small_preset


def slow(at: Pieces, mixer: Mixer, sizes: tuple[int, ...]) -> Tensor:
    stream, updates = at.embedding, []
    ordinal = 0
    for size in sizes:
        for position in range(size):
            seen = stream + mixer(updates, f"sites.{ordinal}") if updates else stream
            y = at.f[ordinal](at.norm[ordinal](seen))
            stream = stream + y
            if position == 0:
                updates.append(y)
            else:
                updates[-1] = updates[-1] + y
            ordinal += 1
    return at.final_norm(stream + mixer(updates, "output"))


@torch.no_grad()
@pytest.mark.parametrize("sizes", [(1,) * 8, (3, 3, 2)])
@pytest.mark.parametrize("keys", [{}, {"depth_heads": 4}, {"query": "input"}, {"query": "scalars"}])
def test_against_the_formula(sizes: tuple[int, ...], keys: dict[str, Any]) -> None:
    model, at, tokens = stirred({"scheme": "delta-attnres", "block_sublayers": sizes[0], **keys})
    knobs = Knobs(depth_heads=keys.get("depth_heads", 1), query=keys.get("query", "static"))
    mixer = Mixer(knobs, dict(model.residual.named_parameters()), at.epsilon)
    assert_walks_as(model, tokens, slow(at, mixer, sizes))


@torch.no_grad()
def test_every_sublayer_is_a_source_by_default() -> None:
    names = small_model({"scheme": "delta-attnres"}, **{"model.transformer_blocks": 6}).residual.state_spec(12)
    assert len(names) == 1 + 2 * 12
    assert names[0] == "stream"


def test_the_parameters_are_those_of_the_replacing_scheme() -> None:
    assert small_model({"scheme": "delta-attnres"}).residual.own_parameters() == 9 * 2 * 16


@pytest.mark.parametrize("key", ["normaliser", "window", "embedding_source", "final_mix"])
def test_keys_of_replacement_are_refused(key: str) -> None:
    value = {"normaliser": "sigmoid", "window": 2}.get(key, False)
    with pytest.raises(UserError, match=f"{key} does nothing here"):
        small_preset({"scheme": "delta-attnres", key: value})
