"""HybridNorm against its formula, with both forms of the first transformer block."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.residual.trunk_pieces import assert_walks_as, rms_norm, stirred
from tests.small import small_model


@torch.no_grad()
@pytest.mark.parametrize("kv_heads", [2, 1])
@pytest.mark.parametrize("first_block", ["same", "pre-norm"])
def test_against_the_formula(first_block: str, kv_heads: int) -> None:
    model, at, tokens = stirred(
        {"scheme": "hybridnorm", "first_block": first_block}, **{"model.num_kv_heads": kv_heads}
    )
    own = model.residual.get_parameter

    def attention(block: int, x: Tensor) -> Tensor:
        def normed(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            gains = [own(f"head_norms.{block}.{role}.gain") for role in ("query", "key", "value")]
            q = torch.stack([rms_norm(q[:, head], gains[0], at.epsilon) for head in range(2)], dim=2)
            k = torch.stack([rms_norm(k[:, head], gains[1], at.epsilon) for head in range(kv_heads)], dim=2)
            v = torch.stack([rms_norm(v[:, head], gains[2], at.epsilon) for head in range(kv_heads)], dim=2)
            return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)

        return at.f[2 * block](x, normed)

    h = at.embedding
    for block in range(4):
        feed_forward, norm = at.f[2 * block + 1], at.norm[2 * block + 1]
        if block == 0 and first_block == "pre-norm":
            y = h + attention(block, at.norm[0](h))
            h = y + feed_forward(norm(y))
        else:
            y = h + attention(block, h)
            h = norm(y) + feed_forward(norm(y))
    assert_walks_as(model, tokens, at.final_norm(h))
    assert model.residual.own_parameters() == 4 * 3 * 8
    assert model.residual.cost().forward_flops_per_token == 4 * 4 * 8 * (2 + 2 * kv_heads)


@pytest.mark.parametrize(("first_block", "unused"), [("same", [0, 2, 4, 6]), ("pre-norm", [2, 4, 6])])
def test_norms_without_work(first_block: str, unused: list[int]) -> None:
    model = small_model({"scheme": "hybridnorm", "first_block": first_block})
    assert sorted(model.residual.unused_norms()) == unused
    assert sorted(model.dead_parameters()) == [f"blocks.{ordinal // 2}.attention_norm.gain" for ordinal in unused]


@torch.no_grad()
def test_query_key_and_value_scale_away() -> None:
    """Normalised heads do not depend on the size of the fused projection."""
    model, _, tokens = stirred({"scheme": "hybridnorm"}, **{"model.norm_epsilon": 0.0})
    before = model.walk(tokens)
    for name, parameter in model.named_parameters():
        if name.endswith("qkv.weight"):
            parameter.mul_(3.0)
    assert_walks_as(model, tokens, before)
