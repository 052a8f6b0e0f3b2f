"""From logits over sources to weights: softmax, as in the paper, and what ablations and descendants put in its place.

All take logits [n, …] of n sources and give weights of the same shape; each token (and head) for itself.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def softmax(logits: Tensor) -> Tensor:
    """exp(s_i) / Σ_j exp(s_j)."""
    return torch.softmax(logits, dim=0)


def sigmoid(logits: Tensor) -> Tensor:
    """σ(s_i), every source for itself; the weights do not add up to one."""
    return torch.sigmoid(logits)


def normalised_sigmoid(logits: Tensor) -> Tensor:
    """σ(s_i) / Σ_j σ(s_j). Through logarithms: where all sigmoids underflow their ratios are still right."""
    return torch.softmax(torch.nn.functional.logsigmoid(logits), dim=0)


def softmax_1(logits: Tensor) -> Tensor:
    """exp(s_i) / (1 + Σ_j exp(s_j)): one more source, which is nothing, has the logit 0 (OASIS, arXiv 2605.17887)."""
    nothing = torch.zeros_like(logits[:1])
    return torch.softmax(torch.cat([nothing, logits]), dim=0)[1:]


def sparsemax(logits: Tensor) -> Tensor:
    """The nearest point of the simplex (Martins & Astudillo, arXiv 1602.02068): max(s_i - τ, 0), adding up to one.

    τ is such that it does: with s sorted downwards, k is the largest count with 1 + k s_k > Σ_{j ≤ k} s_j, and
    τ = (Σ_{j ≤ k} s_j - 1) / k.
    """
    ordered = logits.sort(dim=0, descending=True).values
    sums = ordered.cumsum(0)
    counts = torch.arange(1, logits.shape[0] + 1, dtype=logits.dtype, device=logits.device)
    counts = counts.view(-1, *([1] * (logits.dim() - 1)))
    supported = (1 + counts * ordered > sums).sum(0, keepdim=True)
    threshold = (sums.gather(0, supported - 1) - 1) / supported
    return torch.clamp(logits - threshold, min=0)


def raw(logits: Tensor) -> Tensor:
    """The numbers themselves."""
    return logits


NORMALISERS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": softmax,
    "sigmoid": sigmoid,
    "normalised-sigmoid": normalised_sigmoid,
    "softmax-1": softmax_1,
    "sparsemax": sparsemax,
    "raw": raw,
}
# Those whose weights add up to one, whatever the logits.
SUM_TO_ONE = frozenset({"softmax", "normalised-sigmoid", "sparsemax"})
