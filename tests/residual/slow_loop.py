"""Attention Residuals written again from the paper, one token at a time, in plain Python floats.

Shares nothing with the code under test but the sublayers f_l (which include their PreNorm, §2) and the parameters.
Indices are the paper's: l = 1 … L, v_0 = h_1 the embedding, blocks n = 1 … N.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Sublayer = Callable[[Tensor], Tensor]


def depth_attention(
    sources: Sequence[Tensor], query: Tensor, gain: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Eq. 2–4 for every token apart: h = Σ α_i v_i and α [sources, B, T], α_i ∝ exp(wᵀ RMSNorm(v_i))."""
    batch, length, width = sources[0].shape
    w = query.tolist()
    g = [1.0] * width if gain is None else gain.tolist()
    mixed, weights = [], []
    for token in zip(*(source.flatten(0, 1).tolist() for source in sources), strict=True):
        scores = []
        for v in token:
            root = math.sqrt(sum(x * x for x in v) / width + epsilon)
            scores.append(sum(w[c] * g[c] * v[c] / root for c in range(width)))
        exponentials = [math.exp(score) for score in scores]
        alpha = [each / sum(exponentials) for each in exponentials]
        weights.append(alpha)
        mixed.append([sum(a * v[c] for a, v in zip(alpha, token, strict=True)) for c in range(width)])
    h = torch.tensor(mixed, dtype=sources[0].dtype).view(batch, length, width)
    return h, torch.tensor(weights, dtype=torch.float64).T.reshape(len(sources), batch, length)


def full(
    embedding: Tensor,
    sublayers: Sequence[Sublayer],
    queries: Sequence[Tensor],
    gains: Sequence[Tensor | None],
    epsilon: float,
) -> tuple[Tensor, list[Tensor]]:
    """Eq. 1–4 and the output site: queries and gains have L + 1 entries. Returns the output mix and α of every site."""
    v = [embedding]
    alphas = []
    for site, f in enumerate(sublayers):
        h, alpha = depth_attention(v, queries[site], gains[site], epsilon)
        alphas.append(alpha)
        v.append(f(h))
    out, alpha = depth_attention(v, queries[-1], gains[-1], epsilon)
    return out, [*alphas, alpha]


def block(
    embedding: Tensor,
    sublayers: Sequence[Sublayer],
    queries: Sequence[Tensor],
    gains: Sequence[Tensor | None],
    epsilon: float,
    sizes: Sequence[int],
) -> tuple[Tensor, list[Tensor]]:
    """Eq. 5–6: the i-th sublayer of block n sees b_0 … b_{n-1}, and from i = 2 on the partial sum b_n^{i-1}."""
    assert sum(sizes) == len(sublayers)
    b = [embedding]
    alphas = []
    site = 0
    for size in sizes:
        outputs: list[Tensor] = []
        for i in range(1, size + 1):
            sources = list(b) if i == 1 else [*b, sum(outputs[1:], outputs[0])]
            h, alpha = depth_attention(sources, queries[site], gains[site], epsilon)
            alphas.append(alpha)
            outputs.append(sublayers[site](h))
            site += 1
        b.append(sum(outputs[1:], outputs[0]))
    out, alpha = depth_attention(b, queries[-1], gains[-1], epsilon)
    return out, [*alphas, alpha]
