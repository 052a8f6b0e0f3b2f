"""Attention Residuals from the paper's equations (arXiv 2603.15031), one token at a time, in plain Python numbers.

Slow and obvious; shares nothing with what it is held against but the sublayers f_l and the parameters' values.
Indices are the paper's: l = 1 … L, v_0 = h_1 the embedding, blocks n = 1 … N. Rows are tokens: a source is a list of
tokens, a token a list of d numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Rows = list[list[float]]
Function = Callable[[Rows], Rows]


def rms_norm(x: Sequence[float], gain: Sequence[float] | None, epsilon: float) -> list[float]:
    """g ⊙ x / sqrt(mean(x²) + ε)."""
    root = math.sqrt(sum(c * c for c in x) / len(x) + epsilon)
    return [c / root for c in x] if gain is None else [g * c / root for g, c in zip(gain, x, strict=True)]


def depth_attention(
    sources: Sequence[Rows], query: Sequence[float], gain: Sequence[float] | None, epsilon: float
) -> tuple[Rows, Rows]:
    """Eq. 2-4 for every token apart: h = Σ α_i v_i, and α as one row per token; α_i ∝ exp(wᵀ RMSNorm(v_i))."""
    mixed, weights = [], []
    for token in range(len(sources[0])):
        values = [source[token] for source in sources]
        scores = [sum(w * k for w, k in zip(query, rms_norm(v, gain, epsilon), strict=True)) for v in values]
        exponentials = [math.exp(score) for score in scores]
        alpha = [each / sum(exponentials) for each in exponentials]
        mixed.append([sum(a * v[c] for a, v in zip(alpha, values, strict=True)) for c in range(len(values[0]))])
        weights.append(alpha)
    return mixed, weights


def add(one: Rows, other: Rows) -> Rows:
    return [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(one, other, strict=True)]


def block_sizes(sublayers: int, blocks: int | None, block_sublayers: int | None) -> list[int]:
    """How L sublayers are cut (§3.2): S in each block and the rest in the last one, or N blocks of ⌊L/N⌋, the last one
    with the rest. Neither: every sublayer is a source of its own (Full)."""
    if block_sublayers is None and blocks is None:
        return [1] * sublayers
    if block_sublayers is not None:
        return [min(block_sublayers, sublayers - first) for first in range(0, sublayers, block_sublayers)]
    assert blocks is not None
    size = sublayers // blocks
    return [size] * (blocks - 1) + [sublayers - size * (blocks - 1)]


def source_counts(sizes: Sequence[int]) -> list[int]:
    """Sources of every sublayer, and of the output site last: the i-th sublayer of block n sees b_0 … b_{n-1}, and from
    i = 2 on the partial sum."""
    counts = [n + (i > 1) for n, size in enumerate(sizes, 1) for i in range(1, size + 1)]
    return [*counts, len(sizes) + 1]


def full(
    embedding: Rows,
    sublayers: Sequence[Function],
    queries: Sequence[Sequence[float]],
    gains: Sequence[Sequence[float] | None],
    epsilon: float,
) -> tuple[list[Rows], list[Rows]]:
    """Eq. 1-4: what every site mixes (the output site last) and its weights; queries and gains have L + 1 entries."""
    v = [embedding]
    mixtures, alphas = [], []
    for site in range(len(sublayers) + 1):
        h, alpha = depth_attention(v, queries[site], gains[site], epsilon)
        mixtures.append(h)
        alphas.append(alpha)
        if site < len(sublayers):
            v.append(sublayers[site](h))
    return mixtures, alphas


def block(
    embedding: Rows,
    sublayers: Sequence[Function],
    queries: Sequence[Sequence[float]],
    gains: Sequence[Sequence[float] | None],
    epsilon: float,
    sizes: Sequence[int],
) -> tuple[list[Rows], list[Rows]]:
    """Eq. 5-6, as `full`; sizes: sublayers in each block."""
    assert sum(sizes) == len(sublayers)
    b = [embedding]
    mixtures, alphas = [], []
    site = 0
    for size in sizes:
        partial: Rows | None = None
        for _ in range(size):
            h, alpha = depth_attention(b if partial is None else [*b, partial], queries[site], gains[site], epsilon)
            mixtures.append(h)
            alphas.append(alpha)
            output = sublayers[site](h)
            partial = output if partial is None else add(partial, output)
            site += 1
        assert partial is not None
        b.append(partial)
    h, alpha = depth_attention(b, queries[-1], gains[-1], epsilon)
    return [*mixtures, h], [*alphas, alpha]
