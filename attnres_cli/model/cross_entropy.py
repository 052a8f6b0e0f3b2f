"""Cross-entropy of the head that never holds the logits of the whole batch.

Rows are taken in chunks: logits, log-sum-exp, and (where a gradient is wanted) softmax minus one-hot, turned at
once into the gradients of the hidden states and of the head's matrix. What is kept for the backward pass is as
large as the hidden states and the matrix, not as large as the logits, which are vocabulary / width times larger.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# Logits held at a time: enough rows for a full-speed matrix product, small enough to stay in a CPU's cache. A CUDA
# device wants more rows at once (256 MiB in float32; reasoned, not measured).
CHUNK_LOGITS = {"cpu": 1 << 21, "cuda": 1 << 26}
IGNORED_TARGET = -100


def summed_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Σ -log softmax(hidden weightᵀ)[target] in nats over targets that are not `IGNORED_TARGET`.

    hidden: [M, d]; weight: [vocabulary, d]; targets: [M] int64. The products are taken in the autocast dtype where
    autocast is on; everything else, and the returned scalar, is in promote_types(dtype, float32).
    """
    if torch.compiler.is_compiling():  # one node of the graph, which a loop over chunks is not
        total: Tensor = _traceable(hidden, weight, targets, _product_dtype(hidden), torch.is_grad_enabled())[0]
        return total
    if not torch.is_grad_enabled():  # a Function sees which inputs could take a gradient, not whether one is wanted
        hidden, weight = hidden.detach(), weight.detach()
    found: Tensor = _ChunkedCrossEntropy.apply(hidden, weight, targets)  # type: ignore[no-untyped-call]
    return found


class _ChunkedCrossEntropy(torch.autograd.Function):
    """The gradient is finished in the forward pass and only scaled in the backward pass, because the loss is a
    scalar."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        wants_gradient = any(ctx.needs_input_grad)
        total, *gradients = _in_chunks(hidden, weight, targets, _product_dtype(hidden), wants_gradient)
        if wants_gradient:
            ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad, grad_weight * grad, None


def _in_chunks(
    hidden: Tensor, weight: Tensor, targets: Tensor, narrow: torch.dtype, wants_gradient: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The sum and its gradients by hidden and by weight; those empty where none is wanted. narrow: of the products."""
    wide = torch.promote_types(hidden.dtype, torch.float32)
    matrix, rows = weight.to(narrow), hidden.to(narrow)
    grad_hidden, grad_weight = _gradients(hidden, weight, wants_gradient)
    total = torch.zeros((), dtype=wide, device=hidden.device)
    size = max(1, CHUNK_LOGITS.get(hidden.device.type, CHUNK_LOGITS["cpu"]) // weight.shape[0])
    for first in range(0, hidden.shape[0], size):
        chunk, target = rows[first : first + size], targets[first : first + size]
        counted = target != IGNORED_TARGET
        index = target.clamp(min=0).unsqueeze(1)
        logits = (chunk @ matrix.t()).to(wide)
        largest = logits.amax(1, keepdim=True)
        chosen = logits.gather(1, index) - largest
        exponentials = logits.sub_(largest).exp_()
        sums = exponentials.sum(1, keepdim=True)
        total += ((sums.log() - chosen).squeeze(1) * counted).sum()
        if wants_gradient:
            scale = counted.unsqueeze(1).to(wide)
            gradient = exponentials.mul_(scale / sums).scatter_add_(1, index, -scale).to(narrow)
            grad_hidden[first : first + size] = gradient @ matrix
            if narrow == grad_weight.dtype:
                grad_weight.addmm_(gradient.t(), chunk)
            else:
                grad_weight += gradient.t() @ chunk
    return total, grad_hidden, grad_weight


def _gradients(hidden: Tensor, weight: Tensor, wants_gradient: bool) -> tuple[Tensor, Tensor]:
    """Room for them."""
    if not wants_gradient:
        return hidden.new_empty(0), weight.new_empty(0)
    return torch.empty_like(hidden, memory_format=torch.contiguous_format), torch.zeros_like(weight)


def _product_dtype(hidden: Tensor) -> torch.dtype:
    device = hidden.device.type
    if device == "meta" or not torch.is_autocast_enabled(device):  # autocast does not know the meta device
        return hidden.dtype
    return torch.get_autocast_dtype(device)


# ---------------------------------------------------------------------- under torch.compile

_traceable = torch.library.custom_op("attnres::summed_cross_entropy", _in_chunks, mutates_args=())


@_traceable.register_fake
def _(
    hidden: Tensor, weight: Tensor, targets: Tensor, narrow: torch.dtype, wants_gradient: bool
) -> tuple[Tensor, Tensor, Tensor]:
    total = hidden.new_empty((), dtype=torch.promote_types(hidden.dtype, torch.float32))
    return total, *_gradients(hidden, weight, wants_gradient)


def _keep(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output[1:])


def _scale(ctx: Any, grad: Tensor, _hidden: Tensor, _weight: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
    grad_hidden, grad_weight = ctx.saved_tensors
    return grad_hidden * grad, grad_weight * grad, None, None, None


_traceable.register_autograd(_scale, setup_context=_keep)
