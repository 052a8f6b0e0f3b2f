"""Low-Rank Attention Residuals against the slow loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnres_cli.errors import UserError
from tests.residual import slow_routing
from tests.residual.slow_routing import Knobs, Mixer
from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model, small_preset


@torch.no_grad()
@pytest.mark.parametrize(
    ("projection", "rank"),
    [("projected", None), ("projected", 1), ("projected", 6), ("projected", 16)]
    + [("sliced", None), ("sliced", 1), ("sliced", 6), ("sliced", 15)],
)
def test_against_the_slow_loop(projection: str, rank: int | None) -> None:
    keys: dict[str, Any] = {"key_projection": projection} | ({} if rank is None else {"key_rank": rank})
    model, at, tokens = stirred({"scheme": "attnres-low-rank", "block_sublayers": 3, **keys})
    knobs = Knobs(key_rank=rank or 4, key_projection=projection)
    mixer = Mixer(knobs, dict(model.residual.named_parameters()), at.epsilon)
    assert_walks_as(model, tokens, slow_routing.walk(at, mixer, (3, 3, 2)))


def test_a_quarter_of_the_width_by_default() -> None:
    """Nine sites of query and gain, 4 channels each, and the matrix 4 × 16."""
    assert small_model({"scheme": "attnres-low-rank"}).residual.own_parameters() == 9 * 2 * 4 + 4 * 16
    sliced = small_model({"scheme": "attnres-low-rank", "key_projection": "sliced"})
    assert sliced.residual.own_parameters() == 9 * 2 * 4


def test_the_key_matrix_starts_with_unit_gain() -> None:
    model = small_model({"scheme": "attnres-low-rank", "key_rank": 64}, **{"model.d_model": 256, "model.d_ff": 32})
    matrix = model.residual.get_parameter("keys_of.projection")
    # the standard error of a standard deviation over n draws is std / sqrt(2 n): five of them
    assert abs(float(matrix.detach().std()) - 1 / 16) < 5 / 16 / (2 * matrix.numel()) ** 0.5


def test_a_slice_of_all_channels_is_refused() -> None:
    with pytest.raises(UserError, match="key_rank would change nothing"):
        small_preset({"scheme": "attnres-low-rank", "key_projection": "sliced", "key_rank": 16})


def test_scalars_have_no_keys() -> None:
    with pytest.raises(UserError, match="query"):
        small_preset({"scheme": "attnres-low-rank", "query": "scalars"})
