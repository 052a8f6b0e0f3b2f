"""LIMe's routing of keys and values against its formula, head by head."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import small_model, tokens_and_targets

HEADS: dict[str, Any] = {"model.num_heads": 4, "model.num_kv_heads": 2}


@torch.no_grad()
@pytest.mark.parametrize("heads", [{}, HEADS])
def test_against_the_formula(heads: dict[str, Any]) -> None:
    model, at, tokens = stirred({"scheme": "lime"}, **heads)
    memory: list[tuple[Tensor, Tensor]] = []

    def routed(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        memory.append((k, v))
        layer, count = len(memory) - 1, k.shape[1]
        if layer == 0:
            return q, k, v
        router = model.residual.get_parameter(f"layers.{layer}.router")
        new_k, new_v = torch.zeros_like(k), torch.zeros_like(v)
        for i in range(count):
            for earlier, (its_k, its_v) in enumerate(memory):
                for j in range(count):
                    weight = float(router[i, earlier * count + j])
                    new_k[:, i] += weight * its_k[:, j]
                    new_v[:, i] += weight * its_v[:, j]
        return q, new_k, new_v

    h = at.embedding
    for ordinal in range(8):
        x = at.norm[ordinal](h)
        h = h + (at.f[ordinal](x, routed) if ordinal % 2 == 0 else at.f[ordinal](x))
    assert_walks_as(model, tokens, at.final_norm(h))


@torch.no_grad()
def test_starts_as_the_baseline_without_the_others() -> None:
    tokens, _ = tokens_and_targets()
    baseline = small_model()(tokens)
    model = small_model({"scheme": "lime", "initial_others": "zero"})
    torch.testing.assert_close(model(tokens), baseline, rtol=1e-12, atol=1e-14)
    assert (small_model({"scheme": "lime"})(tokens) - baseline).abs().max() > 1e-6


@torch.no_grad()
def test_first_values() -> None:
    """The own layer's square is the identity; the others are uniform with variance 1 / fan-in."""
    model = small_model({"scheme": "lime"}, **{"model.d_model": 128, "model.num_heads": 64, "model.num_kv_heads": 64})
    for layer in (1, 2, 3):
        router = model.residual.get_parameter(f"layers.{layer}.router")
        fan_in = (layer + 1) * 64
        assert router.shape == (64, fan_in)
        assert torch.equal(router[:, -64:], torch.eye(64, dtype=router.dtype))
        others = router[:, :-64]
        bound = math.sqrt(3 / fan_in)
        assert 0.99 * bound < float(others.abs().max()) <= bound
        assert float(others.std()) == pytest.approx(1 / math.sqrt(fan_in), rel=0.03)


def test_own_parameters_and_cost() -> None:
    residual = small_model({"scheme": "lime"}, **HEADS).residual
    assert residual.own_parameters() == 2 * 2 * (2 + 3 + 4)
    # head size 4: keys and values have 8 channels a head; per weight a multiply-add for each
    assert residual.cost().forward_flops_per_token == 2 * 8 * 2 * 2 * (2 + 3 + 4)
    # the last layer's keys and values are kept for nobody
    assert residual.cost().live_elements_per_token == 16 + 3 * 2 * 8


def test_half_precision_autocast_keeps_the_memory_wide() -> None:
    model = small_model({"scheme": "lime"}, dtype=torch.float32)
    seen: list[torch.dtype] = []

    class Dtypes:
        def sublayer(self, site: Any, before: Any, x: Any, output: Tensor, after: Any) -> None:
            seen.extend(tensor.dtype for tensor in after)

        def close(self, state: Any, output: Tensor) -> None: ...

    tokens, _ = tokens_and_targets()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        closed = model.walk(tokens, Dtypes())
    assert set(seen) == {torch.float32}
    assert closed.isfinite().all()
