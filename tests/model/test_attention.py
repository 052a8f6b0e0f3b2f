"""Attention, rotary positions and SwiGLU against slow definitions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from attnres_cli.model.feed_forward.swiglu import gated
from attnres_cli.model.rotary import Rotary
from tests.small import small_model


def slow_rotary(x: Tensor, theta: float) -> Tensor:
    """Channels (2i, 2i+1) of position t turned by t θ^(-2i/d), one number at a time. x: [T, d]."""
    out = x.clone()
    length, width = x.shape
    for t in range(length):
        for i in range(0, width, 2):
            angle = t * theta ** (-i / width)
            a, b = float(x[t, i]), float(x[t, i + 1])
            out[t, i] = a * math.cos(angle) - b * math.sin(angle)
            out[t, i + 1] = b * math.cos(angle) + a * math.sin(angle)
    return out


def test_rotary_turns_neighbouring_pairs() -> None:
    rotary = Rotary(head_dim=6, context_tokens=9, theta=100.0)
    rotary.fill(torch.float64)
    x = torch.randn(2, 7, 3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = rotary(x)
    for b in range(2):
        for head in range(3):
            torch.testing.assert_close(found[b, :, head], slow_rotary(x[b, :, head], 100.0), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(rotary(x[:, 2:], first_position=2), found[:, 2:], rtol=1e-14, atol=1e-14)


@torch.no_grad()
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_query_attention(kv_heads: int) -> None:
    model = small_model(
        **{"model.num_heads": 4, "model.num_kv_heads": kv_heads, "model.d_model": 24, "model.head_dim": 6}
    )
    attention = model.blocks[0].attention
    x = torch.randn(1, 5, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = attention.qkv.weight
    q_rows, k_rows, v_rows = rows[:24], rows[24 : 24 + 6 * kv_heads], rows[24 + 6 * kv_heads :]
    heads = []
    for head in range(4):
        group = head // (4 // kv_heads)
        q = slow_rotary(x[0] @ q_rows[6 * head : 6 * head + 6].T, 10000.0)
        k = slow_rotary(x[0] @ k_rows[6 * group : 6 * group + 6].T, 10000.0)
        v = x[0] @ v_rows[6 * group : 6 * group + 6].T
        out = torch.zeros(5, 6, dtype=torch.float64)
        for t in range(5):
            scores = [math.exp(float(q[t] @ k[s]) / math.sqrt(6)) for s in range(t + 1)]
            for s, score in enumerate(scores):
                out[t] += score / sum(scores) * v[s]
        heads.append(out)
    expected = torch.cat(heads, -1) @ attention.output.weight.T
    torch.testing.assert_close(attention(x)[0], expected, rtol=1e-11, atol=1e-12)


@torch.no_grad()
def test_projections_routed_apart_equal_the_fused_ones() -> None:
    attention = small_model().blocks[0].attention
    x = torch.randn(2, 5, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    seen: list[torch.Size] = []

    def project(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        seen.extend((q.shape, k.shape, v.shape))
        return q.contiguous(), k, v.contiguous()  # a scheme may lay them out anew

    fused = attention(x)
    torch.testing.assert_close(attention({"q": x, "k": x, "v": x}), fused, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(attention(x, project), fused, rtol=1e-12, atol=1e-14)
    assert seen == [(2, 2, 5, 8)] * 3
    other = attention({"q": x, "k": x, "v": 2 * x})
    torch.testing.assert_close(other, 2 * fused, rtol=1e-12, atol=1e-14)


@torch.no_grad()
def test_swiglu() -> None:
    feed_forward = small_model().blocks[0].feed_forward
    x = torch.randn(3, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    gate_rows, up_rows = feed_forward.gate_up.weight[:24], feed_forward.gate_up.weight[24:]
    gate, up = x @ gate_rows.T, x @ up_rows.T
    expected = (gate / (1 + torch.exp(-gate)) * up) @ feed_forward.down.weight.T
    torch.testing.assert_close(feed_forward(x), expected, rtol=1e-12, atol=1e-14)


def test_swiglus_written_out_gradient() -> None:
    gate_up = torch.randn(3, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(gated, gate_up)


def test_splitting_and_turning_at_once_is_the_same_and_so_is_its_gradient() -> None:
    rotary = Rotary(head_dim=4, context_tokens=5, theta=100.0)
    rotary.fill(torch.float64)
    heads = torch.randn(2, 3, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    q, k, v = rotary.split(heads.clone(), (3, 2, 1))  # which uses up what it is given
    for found, expected in ((q, rotary(heads[:, :, :3])), (k, rotary(heads[:, :, 3:5])), (v, heads[:, :, 5:])):
        torch.testing.assert_close(found, expected, rtol=1e-14, atol=1e-14)
    assert torch.autograd.gradcheck(lambda x: rotary.split(x.clone(), (3, 2, 1)), heads)
    only_v = torch.autograd.grad(rotary.split(heads.clone(), (3, 2, 1))[2].sum(), heads)[0]
    assert torch.equal(only_v, torch.cat((torch.zeros(2, 3, 5, 4), torch.ones(2, 3, 1, 4)), 2).double())
