"""SiameseNorm against its formula."""

from __future__ import annotations

import math

import pytest
import torch

from tests.residual.trunk_pieces import assert_walks_as, rms_norm, stirred
from tests.small import small_model, tokens_and_targets


@torch.no_grad()
@pytest.mark.parametrize("final", ["both", "pre", "post"])
def test_against_the_formula(final: str) -> None:
    model, at, tokens = stirred({"scheme": "siamesenorm", "final": final})

    def own_norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return rms_norm(x, model.residual.get_parameter(f"{name}.gain"), model.config.norm_epsilon)

    x = y = at.embedding
    for block in range(4):
        c = math.sqrt(2 * (block + 1))
        for ordinal in (2 * block, 2 * block + 1):
            x = own_norm(x, f"sites.{ordinal}.post")
            z = at.f[ordinal](at.norm[ordinal](x + own_norm(y, f"sites.{ordinal}.pre")))
            x, y = x + z / c, y + z
    if final == "both":
        expected = own_norm(x, "output.post") + own_norm(y, "output.pre")
    else:
        expected = y if final == "pre" else x
    assert_walks_as(model, tokens, at.final_norm(expected))


@torch.no_grad()
def test_at_first_the_first_sublayer_sees_what_the_baselines_sees() -> None:
    """Both streams are the embedding, and the norm of twice a normalised vector is that vector."""
    exact = {"model.norm_epsilon": 0.0}
    model, baseline = small_model({"scheme": "siamesenorm"}, **exact), small_model(**exact)
    seen: list[list[torch.Tensor]] = [[], []]

    class Inputs:
        def __init__(self, into: list[torch.Tensor]) -> None:
            self.into = into

        def sublayer(self, site: object, before: object, x: torch.Tensor, output: object, after: object) -> None:
            self.into.append(x)

        def close(self, state: object, output: object) -> None: ...

    tokens, _ = tokens_and_targets()
    for one, into in zip((model, baseline), seen, strict=True):
        one.walk(tokens, Inputs(into))
    torch.testing.assert_close(seen[0][0], seen[1][0], rtol=1e-12, atol=1e-12)
    assert (seen[0][2] - seen[1][2]).abs().max() > 1e-6


@pytest.mark.parametrize(("final", "places"), [("both", 9), ("pre", 8), ("post", 8)])
def test_own_parameters_and_cost(final: str, places: int) -> None:
    residual = small_model({"scheme": "siamesenorm", "final": final}).residual
    assert residual.own_parameters() == 2 * 16 * places
    assert residual.cost().forward_flops_per_token == 16 * (11 * 8 + (9 if final == "both" else 0))
    assert residual.cost().live_elements_per_token == 2 * 16
