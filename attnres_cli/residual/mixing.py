"""Weighted sums over depth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from attnres_cli.residual.precision import widen


def weighted_sum(values: Sequence[Tensor], weights: Iterable[Tensor]) -> Tensor:
    """Σ w_j v_j in at least float32, without stacking the values; each weight broadcasts against its value."""
    total: Tensor | None = None
    for value, weight in zip(values, weights, strict=True):
        value, weight = widen(value), widen(weight)
        total = weight * value if total is None else torch.addcmul(total, weight, value)
    assert total is not None, "a sum of nothing"
    return total
