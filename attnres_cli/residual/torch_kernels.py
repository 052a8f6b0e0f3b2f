"""The kernels of a site in plain PyTorch operations: what runs where there is no compiler.

Sources are taken one by one; nothing is stacked but logits. Fused are the passes, not the operations: no autograd node
per source, no gradient summed up piece by piece, and only per-token numbers kept beside the sources.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attnres_cli.residual.operator import Ahead, Consumer, Normed, Site
from attnres_cli.residual.precision import full_precision, widen

# Gains below this are not divided by: x̂ = output / gain would lose digits, or all of them.
SMALL_GAIN = 1e-3


class TorchKernels:
    """`residual.operator.Kernels`, on any device."""

    any_shape = False
    two_phase = False
    groups_sources = False
    dtypes = frozenset({torch.float32, torch.float64})

    def site(
        self,
        values: Sequence[Tensor],
        scales: Sequence[Tensor],
        newest: Tensor,
        update: Tensor | None,
        query: Tensor,
        gain: Tensor,
        epsilon: float,
        dtype: torch.dtype,
        ahead: Ahead | None,
        backward: bool,
    ) -> Site:
        assert ahead is None, "plain operations do not look ahead"
        value = newest if update is None else torch.add(widen(newest), update)
        rows = [widen(row) for row in (*values, value)]
        scale = _inverse_rms(rows[-1], epsilon)
        with full_precision(query):
            logits = torch.stack([torch.mv(row, query) for row in rows], 1).mul_(torch.stack([*scales, scale], 1))
        log_total = torch.logsumexp(logits, 1)
        if len(rows) == 1:
            mixed = rows[0]
        else:
            alpha = torch.exp(logits - log_total.unsqueeze(1))
            mixed = rows[0] * alpha[:, :1]
            for which, row in enumerate(rows[1:], 1):
                mixed.addcmul_(row, alpha[:, which : which + 1])
        return Site(value, scale, _normed(mixed, gain, epsilon, dtype, backward), logits, log_total)

    def look_ahead(self, values: Sequence[Tensor], scales: Sequence[Tensor], queries: Tensor) -> Ahead:
        raise AssertionError("plain operations do not look ahead")

    def add_norm(
        self,
        stream: Tensor,
        update: Tensor | None,
        gain: Tensor,
        epsilon: float,
        dtype: torch.dtype,
        backward: bool,
    ) -> tuple[Tensor, Normed]:
        summed = widen(stream) if update is None else torch.add(widen(stream), update)
        return summed, _normed(summed, gain, epsilon, dtype, backward)

    def norm_backward(
        self, grad: Tensor, normed: Normed, gain: Tensor, epsilon: float, carry: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        grad, kept, width = widen(grad), widen(normed.kept), gain.shape[0]
        rho = normed.inverse_rms.unsqueeze(1)
        kept_is_output = normed.kept is normed.output
        # LayerNorm's kernel with mean 0 and x̂ = x · inverse gives inverse (dy ⊙ g - mean(dy ⊙ g) - x̂ u): one term too
        # many, and the right gradient of the gain. u = mean(dy ⊙ g ⊙ x̂).
        x, inverse = (kept / gain, torch.ones_like(rho)) if kept_is_output else (kept, rho)
        grad_x, grad_gain, _ = torch.ops.aten.native_layer_norm_backward(
            grad, x, [width], torch.zeros_like(rho), inverse, gain, None, [True, True, False]
        )
        mean = torch.mv(grad, gain).unsqueeze(1).div_(width)
        grad_x.addcmul_(mean, inverse)
        if kept_is_output:
            grad_x.mul_(rho)
        # The product with the input is d u ε ρ²; dy ⊙ g ⊙ x̂ is dy ⊙ output.
        along = torch.linalg.vecdot(grad, kept if kept_is_output else kept * gain)
        if not kept_is_output:
            along.mul_(normed.inverse_rms)
        dot = along.mul_(normed.inverse_rms.square()).mul_(epsilon)
        return grad_x if carry is None else grad_x.add_(carry), dot, grad_gain

    def source_backward(
        self,
        values: Sequence[Tensor],
        scales: Sequence[Tensor],
        consumers: Sequence[Sequence[Consumer]],
        carry: Tensor | None,
    ) -> tuple[Sequence[Tensor], Tensor]:
        found = [self._gathered(*source) for source in zip(values, scales, consumers, strict=True)]
        grads = [grad for grad, _ in found]
        if carry is not None:
            grads[0].add_(carry)
        grad_queries = found[0][1]
        for _, more in found[1:]:
            grad_queries.add_(more)
        return grads, grad_queries

    def _gathered(self, value: Tensor, scale: Tensor, consumers: Sequence[Consumer]) -> tuple[Tensor, Tensor]:
        row, width = widen(value), value.shape[1]
        logits = torch.stack([consumer.logits[:, consumer.column] for consumer in consumers], 1)
        alpha = torch.exp(logits - torch.stack([consumer.log_total for consumer in consumers], 1))
        product = torch.empty_like(logits)
        scratch = torch.empty_like(row)
        for which, consumer in enumerate(consumers):
            torch.mul(consumer.grad_mixed, row, out=scratch)
            torch.sum(scratch, 1, out=product[:, which])
        grad_logits = product.sub_(torch.stack([consumer.grad_dot_mixed for consumer in consumers], 1)).mul_(alpha)
        along = (grad_logits * logits).sum(1).mul_(scale.square()).div_(-width)
        coefficients = grad_logits.mul_(scale.unsqueeze(1))
        queries = torch.stack([consumer.query for consumer in consumers])
        grad = torch.mul(row, along.unsqueeze(1), out=scratch)
        with full_precision(row):
            grad.addmm_(coefficients, queries)
            grad_queries = torch.mm(coefficients.t(), row)
        for which, consumer in enumerate(consumers):
            grad.addcmul_(consumer.grad_mixed, alpha[:, which : which + 1])
        return grad, grad_queries


def _inverse_rms(x: Tensor, epsilon: float) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return norm.square_().div_(x.shape[-1]).add_(epsilon).rsqrt_()


def _normed(x: Tensor, gain: Tensor, epsilon: float, dtype: torch.dtype, backward: bool) -> Normed:
    rho = _inverse_rms(x, epsilon)
    output = torch.mul(x, rho.unsqueeze(1)).mul_(gain).to(dtype)
    divisible = not backward or gain.is_meta or bool(gain.abs().min() >= SMALL_GAIN)
    return Normed(output, output if divisible else x, rho)
