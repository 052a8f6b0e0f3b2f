"""One site of depth attention and back, for tests of kernels: what goes in, by kernels, and by the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from attnres_cli.residual.backends import load_backend
from attnres_cli.residual.operator import Consumer, Kernels
from attnres_cli.residual.ops import reference
from attnres_cli.residual.precision import widen
from attnres_cli.verify.sites import Inputs
from tests.residual.rounding import errors

CPU = torch.device("cpu")
SMALLEST = 1e-30  # weights that float32 has no numbers for, times sources, gradients and queries


def kernels_of(backend: str) -> Kernels:
    op = load_backend(backend)
    reason = op.unusable(CPU)
    if reason is not None:
        pytest.skip(reason)
    assert op.kernels is not None
    return op.kernels


def drawn(
    n: int, tokens: int, width: int, dtypes: Sequence[torch.dtype], *, query_size: float = 1.0, update: bool = False,
    zero_gains: bool = False, epsilon: float = 1e-12,
) -> Inputs:  # fmt: skip
    """n sources whose sizes differ by orders of magnitude, of `dtypes` in turn; queries and gains are wide."""
    generator = torch.Generator().manual_seed(n + 1000 * tokens + width)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    values = [(normal(tokens, width) * 10.0 ** (i % 4 - 2)).to(dtypes[i % len(dtypes)]) for i in range(n)]
    wide = widen(values[0]).dtype
    query, gain = normal(width), 1 + 0.3 * normal(width)
    if zero_gains:
        gain[::3] = 0
        gain[1::3] *= 1e-20
    return Inputs(
        values, normal(tokens, width).to(dtypes[0]) if update else None, (query_size * query / query.norm()).to(wide),
        gain.to(wide), normal(tokens, width).to(wide), epsilon,
    )  # fmt: skip


def with_twins(x: Inputs) -> Inputs:
    """Every source but the newest twice, the second time with neighbouring channels exchanged, which the query cannot
    tell apart: two logits that differ by rounding alone, so that none of the weights is one, however large the query.
    """
    values = [one for value in x.values[:-1] for one in (value, value.unflatten(-1, (-1, 2)).flip(-1).flatten(-2))]
    query = x.query.unflatten(-1, (-1, 2))[:, :1].expand(-1, 2).flatten()
    return x._replace(values=[*values, x.values[-1]], query=query * (x.query.norm() / query.norm()))


class Results(NamedTuple):
    output: Tensor
    weights: Tensor
    grad_values: list[Tensor]
    grad_query: Tensor
    grad_gain: Tensor
    # How large a source's gradient is before the norm's backward pass takes out what is along the mixture.
    uncancelled: float = 0.0


def by_kernels(kernels: Kernels, x: Inputs) -> Results:
    *finished, newest = x.values
    scales = [reference.inverse_rms(widen(value), x.epsilon) for value in finished]
    wide = x.gain.dtype
    site = kernels.site(finished, scales, newest, x.update, x.query, x.gain, x.epsilon, wide, None, True)
    grad_mixed, dot, grad_gain = kernels.norm_backward(x.grad, site.normed, x.gain, x.epsilon, None)
    sources, scales = [*finished, site.value], [*scales, site.scale]
    consumers = [
        [Consumer(grad_mixed, dot, x.query, site.log_total, site.logits, column)] for column in range(len(sources))
    ]
    grads, grad_query = kernels.source_backward(sources, scales, consumers, None)
    weights = torch.exp(site.logits - site.log_total.unsqueeze(1)).T
    return Results(site.normed.output, weights, list(grads), grad_query[0], grad_gain)


def by_reference(x: Inputs) -> Results:
    values = [value.double() for value in x.values]
    if x.update is not None:
        values[-1] = values[-1] + x.update.double()
    leaves = [tensor.requires_grad_() for tensor in (*values, x.query.double(), x.gain.double())]
    *values, query, gain = leaves
    scales = [reference.inverse_rms(value, x.epsilon) for value in values]
    mixed = reference.mix(values, scales, query)
    rho = reference.inverse_rms(mixed, x.epsilon).unsqueeze(1)
    output = mixed * rho * gain
    *grads, grad_query, grad_gain = torch.autograd.grad(output, leaves, x.grad.double())
    uncancelled = float((x.grad * gain * rho).detach().abs().max())
    weights = reference.weights(values, scales, query).detach()
    return Results(output.detach(), weights, grads, grad_query, grad_gain, uncancelled)


def assert_within_rounding(found: Results, x: Inputs) -> None:
    """What was computed in float32 is as near to the reference as rounding.py says, number by number."""
    exact, values = by_reference(x), [value.double() for value in x.values]
    if x.update is not None:
        values[-1] = values[-1] + x.update.double()
    bounds = errors(values, x.query, x.gain, x.grad, x.epsilon)
    for kind in bounds._fields:
        for one, other, bound in zip(*(_rows(getattr(each, kind)) for each in (found, exact, bounds)), strict=True):
            share = (one.double().to(other.device) - other).abs() / (bound + SMALLEST)
            assert float(share.max()) <= 1, (kind, float(share.max()))


def _rows(tensors: Tensor | list[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else tensors
