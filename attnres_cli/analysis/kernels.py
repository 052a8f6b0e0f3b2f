"""The kernels a training step really uses, on the meta device.

Meta tensors have shapes and no data, so a whole step can be walked in milliseconds. Three operations would take another
path there than on a real device, and so keep other tensors for the backward pass: attention falls back to its textbook
form, which stores the T × T weights; RMSNorm is decomposed, through a compiler that takes seconds to import; and
autocast does not know the device. `real_kernels` puts all three right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


def real_kernels(*, autocast_dtype: torch.dtype | None = None) -> TorchFunctionMode:
    """A context in which a meta-device forward pass keeps what a real one keeps.

    autocast_dtype: bfloat16 for a step under autocast (linear layers and attention), None for full precision.
    """
    return _RealKernels(autocast_dtype)


class _RealKernels(TorchFunctionMode):
    def __init__(self, autocast_dtype: torch.dtype | None) -> None:
        super().__init__()
        self._dtype = autocast_dtype
        self._cast_weights: dict[int, Tensor] = {}

    def __torch_function__(
        self, function: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is F.scaled_dot_product_attention:
            return self._attention(*args, **kwargs)
        if function is F.rms_norm:
            return self._rms_norm(*args, **kwargs)
        if function is F.linear and self._dtype is not None:
            return self._linear(*args, **kwargs)
        return function(*args, **kwargs)

    def _attention(
        self, query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False, enable_gqa: bool = False
    ) -> Tensor:
        if self._dtype is not None:
            query, key, value = (tensor.to(self._dtype) for tensor in (query, key, value))
        output: Tensor = _FlashAttention.apply(query, key, value)  # type: ignore[no-untyped-call]
        return output

    def _rms_norm(self, x: Tensor, normalized_shape: Any, weight: Tensor, eps: float | None = None) -> Tensor:
        output: Tensor = _RMSNorm.apply(x, weight)  # type: ignore[no-untyped-call]
        return output

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Autocast casts each weight once per forward pass and keeps the copy."""
        assert self._dtype is not None
        if id(weight) not in self._cast_weights:
            self._cast_weights[id(weight)] = weight.to(self._dtype)
        cast_bias = None if bias is None else bias.to(self._dtype)
        return F.linear(x.to(self._dtype), self._cast_weights[id(weight)], cast_bias)


class _FlashAttention(torch.autograd.Function):
    """Shapes of flash attention: it keeps q, k, v, the output and one number per query and head."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output = torch.empty_like(query)
        ctx.save_for_backward(query, key, value, output, query.new_empty(query.shape[:-1], dtype=torch.float32))
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value, _, _ = ctx.saved_tensors
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


class _RMSNorm(torch.autograd.Function):
    """Shapes of RMSNorm: it keeps its input and one number per token; a second tensor like x lives while it works."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor) -> Tensor:
        ctx.save_for_backward(x, gain, x.new_empty((*x.shape[:-1], 1)))
        normalised = x.new_empty(x.shape)
        return normalised * gain

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, gain, inverse_rms = ctx.saved_tensors
        per_channel = x * inverse_rms
        return grad * gain, per_channel.flatten(0, -2).sum(0)
