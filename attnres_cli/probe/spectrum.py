"""How many directions a matrix uses."""

from __future__ import annotations

import torch
from torch import Tensor


def effective_rank(matrix: Tensor) -> Tensor:
    """exp of the entropy of the singular values divided by their sum (Roy & Vetterli, The effective rank, 2007);
    [..., m, n] to [...] in float64. n for n equal singular values, 1 for one; 0 for a matrix of zeros."""
    values = torch.linalg.svdvals(matrix.double())
    total = values.sum(-1, keepdim=True)
    shares = values / total.clamp(min=torch.finfo(values.dtype).tiny)
    entropy: Tensor = torch.special.entr(shares).sum(-1)
    return torch.where(total.squeeze(-1) > 0, entropy.exp(), torch.zeros_like(entropy))
