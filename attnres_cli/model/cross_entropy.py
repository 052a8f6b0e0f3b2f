"""Cross-entropy of the head that never holds the logits of the whole batch.

Rows are taken in chunks: logits, log-sum-exp, and (where a gradient is wanted) softmax minus one-hot, turned at
once into the gradients of the hidden states and of the head's matrix. What is kept for the backward pass is as
large as the hidden states and the matrix, not as large as the logits, which are vocabulary / width times larger.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Logits held at a time: enough rows for a full-speed matrix product, small enough to stay in a CPU's cache.
CHUNK_LOGITS = 1 << 21
IGNORED_TARGET = -100


def summed_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Σ -log softmax(hidden weightᵀ)[target] in nats over targets that are not `IGNORED_TARGET`.

    hidden: [M, d]; weight: [vocabulary, d]; targets: [M] int64. The products are taken in the autocast dtype where
    autocast is on; everything else, and the returned scalar, is in promote_types(dtype, float32). Under
    torch.compile the plain form is used.
    """
    if torch.compiler.is_compiling():
        logits = F.linear(hidden, weight)
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return F.cross_entropy(wide, targets, ignore_index=IGNORED_TARGET, reduction="sum")
    if not torch.is_grad_enabled():  # a Function sees which inputs could take a gradient, not whether one is wanted
        hidden, weight = hidden.detach(), weight.detach()
    total: Tensor = _ChunkedCrossEntropy.apply(hidden, weight, targets)  # type: ignore[no-untyped-call]
    return total


class _ChunkedCrossEntropy(torch.autograd.Function):
    """The gradient is finished in the forward pass and only scaled in the backward pass, because the loss is a
    scalar."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        wide = torch.promote_types(hidden.dtype, torch.float32)
        narrow = _product_dtype(hidden)
        matrix, rows = weight.to(narrow), hidden.to(narrow)
        wants_gradient = any(ctx.needs_input_grad)
        grad_hidden = torch.empty_like(hidden) if wants_gradient else None
        grad_weight = torch.zeros_like(weight) if wants_gradient else None
        total = torch.zeros((), dtype=wide, device=hidden.device)
        size = max(1, CHUNK_LOGITS // weight.shape[0])
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
            if grad_hidden is not None and grad_weight is not None:
                scale = counted.unsqueeze(1).to(wide)
                gradient = exponentials.mul_(scale / sums).scatter_add_(1, index, -scale).to(narrow)
                grad_hidden[first : first + size] = gradient @ matrix
                if narrow == grad_weight.dtype:
                    grad_weight.addmm_(gradient.t(), chunk)
                else:
                    grad_weight += gradient.t() @ chunk
        if wants_gradient:
            ctx.save_for_backward(grad_hidden, grad_weight)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad, grad_weight * grad, None


def _product_dtype(hidden: Tensor) -> torch.dtype:
    device = hidden.device.type
    if device == "meta" or not torch.is_autocast_enabled(device):  # autocast does not know the meta device
        return hidden.dtype
    return torch.get_autocast_dtype(device)
