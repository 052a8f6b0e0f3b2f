"""The plain residual's fused pass: each sum is taken together with the norm that follows it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnres_cli.residual.fusing import as_is, flat_rows, output_dtype, shaped
from attnres_cli.residual.operator import Kernels, Normed
from attnres_cli.residual.protocol import Norm, Site


class AddNormPass:
    """h ← h + f(Norm(h)): each sum is taken together with the norm that follows it."""

    def __init__(self, kernels: Kernels, embedding: Tensor) -> None:
        self._kernels = kernels
        self._stream = embedding
        self._shape = embedding.shape
        self._update: Tensor | None = None

    def read(self, site: Site) -> Tensor:
        return self._normed(site.norm)

    def write(self, site: Site, output: Tensor) -> None:
        self._update = output

    def close(self, final_norm: Norm) -> Tensor:
        return self._normed(final_norm)

    def _normed(self, norm: Norm) -> Tensor:
        x: Tensor
        if not torch.is_grad_enabled():
            dtype = output_dtype(self._stream, norm.gain)
            rows = as_is if self._kernels.any_shape else flat_rows
            update = None if self._update is None else rows(self._update)
            self._stream, normed = self._kernels.add_norm(
                rows(self._stream), update, norm.gain, norm.epsilon, dtype, False
            )
            return shaped(normed.output, self._shape)
        self._stream, x = _AddNorm.apply(  # type: ignore[no-untyped-call]
            self._kernels, norm.epsilon, self._stream, self._update, norm.gain
        )
        return x


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernels: Kernels, epsilon: float, stream: Tensor, update: Tensor | None, gain: Tensor
    ) -> tuple[Tensor, Tensor]:
        shape = stream.shape
        summed, normed = kernels.add_norm(
            flat_rows(stream), None if update is None else flat_rows(update), gain, epsilon, output_dtype(stream, gain),
            any(ctx.needs_input_grad),
        )  # fmt: skip
        ctx.kernels, ctx.epsilon, ctx.kept_is_output = kernels, epsilon, normed.kept is normed.output
        ctx.dtypes = stream.dtype, None if update is None else update.dtype
        ctx.save_for_backward(normed.kept, normed.inverse_rms, gain)
        return summed.view(shape), normed.output.view(shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_sum: Tensor, grad: Tensor) -> tuple[Tensor | None, ...]:
        kept, inverse_rms, gain = ctx.saved_tensors
        normed = Normed(kept if ctx.kept_is_output else grad, kept, inverse_rms)
        carried, _, grad_gain = ctx.kernels.norm_backward(
            flat_rows(grad), normed, gain, ctx.epsilon, flat_rows(grad_sum)
        )
        carried = carried.view(grad.shape)
        stream_dtype, update_dtype = ctx.dtypes
        return (
            None,
            None,
            carried.to(stream_dtype),
            None if update_dtype is None else carried.to(update_dtype),
            grad_gain,
        )
