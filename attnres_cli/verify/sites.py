"""One site of depth attention and back, through a back end and through the definition in float64.

A site: the newest source is summed up, mixed with the finished ones, and normalised. Back: the gradient of the norm,
then of every source, of the query and of the norm's gain.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from attnres_cli.residual.operator import Consumer, DepthAttentionOp, Kernels
from attnres_cli.residual.precision import widen

# The norm behind a mixture divides by it, and it may be so many times smaller than its largest source.
SPREAD = 100.0


class Inputs(NamedTuple):
    """values: n × [M, d]; update: what is added to the newest one, [M, d], or None; query, gain: [d]; grad: of the
    site's output, [M, d]."""

    values: list[Tensor]
    update: Tensor | None
    query: Tensor
    gain: Tensor
    grad: Tensor
    epsilon: float


class Results(NamedTuple):
    """By name: [M, d], [n, M], n × [M, d] stacked, [d], [d]."""

    output: Tensor
    weights: Tensor
    grad_values: Tensor
    grad_query: Tensor
    grad_gain: Tensor


def drawn(
    n: int, tokens: int, width: int, dtype: torch.dtype, query_size: float, *, device: torch.device, update: bool
) -> Inputs:
    """Sources of `dtype` whose sizes differ by orders of magnitude; queries and gains are wide."""
    generator = torch.Generator().manual_seed(n + 1000 * tokens + width)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    values = [(normal(tokens, width) * 10.0 ** (i % 4 - 2)).to(device, dtype) for i in range(n)]
    wide = widen(values[0]).dtype
    query, gain = normal(width), 1 + 0.3 * normal(width)
    added = normal(tokens, width).to(device, dtype) if update else None
    query = (query_size * query / query.norm()).to(device, wide)
    return Inputs(values, added, query, gain.to(device, wide), normal(tokens, width).to(device, wide), 1e-12)


def rounding(x: Inputs) -> float:
    """How far a faithful back end may be from the exact result, in units of the largest value.

    A logit is of size |q| √d and carries that many units of rounding of the wide dtype, which the softmax passes on.
    """
    unit = float(torch.finfo(x.gain.dtype).eps)
    largest_logit = float(torch.linalg.vector_norm(x.query)) * math.sqrt(x.query.numel())
    return SPREAD * (1.0 + largest_logit) * unit


def by_definition(x: Inputs) -> tuple[Results, float]:
    """In float64 on the CPU from the same rounded inputs, by autograd; and how large a source's gradient is before the
    norm's backward pass takes out what is along the mixture, which is what its rounding is measured by."""
    values = [_exact(value) for value in x.values]
    if x.update is not None:
        values[-1] = values[-1] + _exact(x.update)
    leaves = [tensor.requires_grad_() for tensor in (*values, _exact(x.query), _exact(x.gain))]
    *values, query, gain = leaves
    stacked = torch.stack(values)
    keys = stacked / (stacked.square().mean(-1, keepdim=True) + x.epsilon).sqrt()
    weights = torch.softmax((keys * query).sum(-1), dim=0)
    mixed = (weights.unsqueeze(-1) * stacked).sum(0)
    root = (mixed.square().mean(-1, keepdim=True) + x.epsilon).sqrt()
    output = mixed / root * gain
    grad = _exact(x.grad)
    *grads, grad_query, grad_gain = torch.autograd.grad(output, leaves, grad)
    found = Results(output.detach(), weights.detach(), torch.stack(grads), grad_query, grad_gain)
    return found, float((grad * gain / root).detach().abs().max())


def _exact(tensor: Tensor) -> Tensor:
    """A copy in float64 on the CPU."""
    return tensor.detach().to("cpu", torch.float64, copy=True)


@torch.no_grad()
def by_kernels(kernels: Kernels, op: DepthAttentionOp, x: Inputs, ahead: int = 0) -> Results:
    """Through a back end's kernels; the first `ahead` finished sources by looking ahead (phase one of two)."""
    *finished, newest = x.values
    scales = [op.inverse_rms(widen(value), x.epsilon) for value in finished]
    looked = None
    if ahead:
        queries = torch.stack([-x.query, x.query])  # two neighbours; the second one is the site at hand
        looked = kernels.look_ahead(finished[:ahead], scales[:ahead], queries).query(1)
    site = kernels.site(
        finished[ahead:], scales[ahead:], newest, x.update, x.query, x.gain, x.epsilon, x.gain.dtype, looked, True
    )
    logits = site.logits if looked is None else torch.cat([looked.logits, site.logits], 1)
    grad_mixed, dot, grad_gain = kernels.norm_backward(x.grad, site.normed, x.gain, x.epsilon, None)
    sources, scales = [*finished, site.value], [*scales, site.scale]
    consumers = [[Consumer(grad_mixed, dot, x.query, site.log_total, logits, i)] for i in range(len(sources))]
    grads, grad_query = kernels.source_backward(sources, scales, consumers, None)
    weights = torch.exp(logits - site.log_total.unsqueeze(1)).T
    return Results(site.normed.output, weights, torch.stack(tuple(grads)), grad_query[0], grad_gain)


def by_functions(op: DepthAttentionOp, x: Inputs) -> Results:
    """Through a back end's functional form: output and weights of the sources as they are; gradients by autograd of
    widened ones, since those of narrow ones would be rounded to their dtype."""

    def forward(values: list[Tensor], query: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
        scales = [op.inverse_rms(value, x.epsilon) for value in values]
        mixed = op.mix(values, scales, query)
        normed = mixed * torch.rsqrt(mixed.square().mean(-1, keepdim=True) + x.epsilon)
        return normed * gain, op.weights(values, scales, query)

    values = list(x.values)
    if x.update is not None:
        values[-1] = widen(values[-1]) + x.update
    with torch.no_grad():
        output, weights = forward(values, x.query, x.gain)
    leaves = [widen(tensor).detach().clone().requires_grad_() for tensor in (*values, x.query, x.gain)]
    *widened, query, gain = leaves
    *grads, grad_query, grad_gain = torch.autograd.grad(forward(widened, query, gain)[0], leaves, x.grad)
    return Results(output, weights, torch.stack(grads), grad_query, grad_gain)


@torch.no_grad()
def largest_deviations(found: Results, exact: Results, uncancelled: float) -> dict[str, float]:
    """Per kind of result, in units of what rounding is measured by: the largest value of its kind; for gradients of
    sources, `uncancelled` where that is more; for the query's gradient, a sum over tokens and sources in which large
    terms cancel, the sum without cancelling."""
    largest = max(uncancelled, float(exact.grad_values.abs().max()))
    tokens, width = exact.output.shape
    sizes = {
        "outputs": float(exact.output.abs().max()),
        "weights": 1.0,
        "gradients of sources": largest,
        "gradients of queries": largest * width**0.5 * tokens * len(exact.weights),
        "gradients of gains": float(exact.grad_gain.abs().max()),
    }
    return {
        kind: float((one.double().cpu() - other).abs().max()) / size
        for (kind, size), one, other in zip(sizes.items(), found, exact, strict=True)
    }
