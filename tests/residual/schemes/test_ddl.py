"""Deep Delta Learning (scalar value) against its formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnres_cli.errors import UserError
from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model, small_preset, tokens_and_targets


@torch.no_grad()
@pytest.mark.parametrize("keys", [{}, {"initial_beta": 0.3}, {"value_scale": 1.5}])
def test_against_the_formula(keys: dict[str, Any]) -> None:
    model, at, tokens = stirred({"scheme": "ddl", **keys})
    x = at.embedding
    for ordinal in range(8):
        own = {
            name: model.residual.get_parameter(f"sites.{ordinal}.{name}")
            for name in ("beta_weight", "beta_bias", "value_weight", "value_bias")
        }
        normed = at.norm[ordinal](x)
        y = at.f[ordinal](normed)
        k = y / torch.sqrt((y * y).sum(-1, keepdim=True) + 16 * model.config.norm_epsilon)
        beta = 2 / (1 + torch.exp(-(normed @ own["beta_weight"] + own["beta_bias"])))
        v = keys.get("value_scale", 4.0) / (1 + torch.exp(-(x @ own["value_weight"] + own["value_bias"])))
        kept = (k * x).sum(-1)
        x = x + (beta * (v - kept))[:, :, None] * k
    assert_walks_as(model, tokens, at.final_norm(x))


@torch.no_grad()
@pytest.mark.parametrize("beta", [1.0, 0.4])
def test_first_values(beta: float) -> None:
    """Along k, β v and (1 - β) of the former component remain; v is 2. Across k, nothing changes."""
    model = small_model({"scheme": "ddl", "initial_beta": beta}, **{"model.norm_epsilon": 0.0})
    tokens, _ = tokens_and_targets()
    checked = []

    class Steps:
        def sublayer(self, site: Any, before: Any, x: Any, output: torch.Tensor, after: Any) -> None:
            k = torch.nn.functional.normalize(output, dim=-1)
            (old, *_), (new,) = before, after
            along = (k * new).sum(-1)
            torch.testing.assert_close(along, beta * 2.0 + (1 - beta) * (k * old).sum(-1), rtol=1e-10, atol=1e-12)
            across = [stream - (k * stream).sum(-1, keepdim=True) * k for stream in (old, new)]
            torch.testing.assert_close(across[1], across[0], rtol=1e-10, atol=1e-12)
            checked.append(site.ordinal)

        def close(self, state: Any, output: torch.Tensor) -> None: ...

    model.walk(tokens, Steps())
    assert checked == list(range(8))


def test_own_parameters_and_cost() -> None:
    residual = small_model({"scheme": "ddl"}).residual
    assert residual.own_parameters() == 8 * (2 * 16 + 2)
    assert residual.cost().forward_flops_per_token == 12 * 16 * 8


@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_beta_lies_between_0_and_2(beta: float) -> None:
    with pytest.raises(UserError, match="initial_beta"):
        small_preset({"scheme": "ddl", "initial_beta": beta})


def test_a_sublayer_that_gives_nothing_changes_nothing() -> None:
    """Its direction is zero, not a division by zero; and no gradient is lost to it."""
    model = small_model({"scheme": "ddl"})
    with torch.no_grad():
        model.blocks[1].attention.output.weight.zero_()
    model.loss(*tokens_and_targets()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
