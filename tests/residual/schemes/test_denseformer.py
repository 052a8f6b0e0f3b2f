"""DenseFormer's depth-weighted averages against their formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.errors import UserError
from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model, small_preset, tokens_and_targets

# For each n = 1 … 4, which X_j the average after n transformer blocks takes; None: there is none.
TAKEN: list[tuple[dict[str, Any], list[list[int] | None]]] = [
    ({}, [[0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]]),
    ({"dilation": 2}, [[1], [0, 2], [1, 3], [0, 2, 4]]),
    ({"dilation": 3}, [[1], [2], [0, 3], [1, 4]]),
    ({"period": 2}, [None, [0, 1, 2], None, [0, 1, 2, 3, 4]]),
    ({"period": 3}, [None, None, [0, 1, 2, 3], None]),
    ({"dilation": 2, "period": 3}, [None, None, [1, 3], None]),
]


@torch.no_grad()
@pytest.mark.parametrize(("keys", "taken"), TAKEN)
def test_against_the_formula(keys: dict[str, Any], taken: list[list[int] | None]) -> None:
    model, at, tokens = stirred({"scheme": "denseformer", **keys})
    outputs = [at.embedding]
    x = at.embedding
    for n in range(1, 5):
        x = x + at.f[2 * n - 2](at.norm[2 * n - 2](x))
        x = x + at.f[2 * n - 1](at.norm[2 * n - 1](x))
        outputs.append(x)
        if (sources := taken[n - 1]) is not None:
            a = model.residual.get_parameter(f"averages.{n - 1}.weights")
            assert a.shape == (len(sources),)
            average: Tensor = torch.zeros_like(x)
            for position, j in enumerate(sources):
                average = average + float(a[position]) * outputs[j]
            x = average
    assert_walks_as(model, tokens, at.final_norm(x))


@torch.no_grad()
@pytest.mark.parametrize("keys", [keys for keys, _ in TAKEN])
def test_starts_as_the_baseline(keys: dict[str, Any]) -> None:
    tokens, _ = tokens_and_targets()
    model = small_model({"scheme": "denseformer", **keys})
    torch.testing.assert_close(model(tokens), small_model()(tokens), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("keys", "taken"), TAKEN)
def test_own_parameters(keys: dict[str, Any], taken: list[list[int] | None]) -> None:
    residual = small_model({"scheme": "denseformer", **keys}).residual
    assert residual.own_parameters() == sum(len(sources or ()) for sources in taken)
    assert residual.cost().forward_flops_per_token == 2 * 16 * residual.own_parameters()
    assert residual.cost().live_elements_per_token == 16 * (4 + 1)


def test_own_parameters_of_the_plain_form_are_half_of_blocks_times_blocks_plus_3() -> None:
    assert small_model({"scheme": "denseformer"}).residual.own_parameters() == 4 * (4 + 3) / 2


@pytest.mark.parametrize("key", ["dilation", "period"])
def test_more_than_there_are_blocks_is_refused(key: str) -> None:
    with pytest.raises(UserError, match=f"{key} = 5 is more than the model's 4 transformer blocks"):
        small_preset({"scheme": "denseformer", key: 5})
