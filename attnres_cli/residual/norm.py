"""RMSNorm (Zhang & Sennrich, arXiv 1910.07467): y = g ⊙ x / sqrt(mean(x²) + ε), statistics in at least float32."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnres_cli.native import PLAIN_PASS_DEVICES
from attnres_cli.residual.holding import are_held, held
from attnres_cli.residual.precision import inverse_rms


class RMSNorm(nn.Module):
    """Normalises the last dimension of [..., d] and scales it by a learned gain [d], one at initialisation.

    ε defaults to 1e-12 in presets: the mean of n sources is n times smaller than their sum, so a larger ε would
    weigh on the schemes unequally (docs/fairness.md).
    """

    def __init__(self, d_model: int, epsilon: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(d_model))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        if are_held():
            return x * held(inverse_rms(x, self.epsilon)).unsqueeze(-1) * self.gain
        if x.device.type in PLAIN_PASS_DEVICES and not torch.compiler.is_compiling():
            normalised: Tensor = _CpuRMSNorm.apply(x, self.gain, self.epsilon)  # type: ignore[no-untyped-call]
            return normalised
        return F.rms_norm(x, (x.shape[-1],), self.gain, self.epsilon)


class _CpuRMSNorm(torch.autograd.Function):
    """The same, with both directions written out.

    PyTorch composes rms_norm of generic operations on the CPU, a power among them, and takes five times as long as its
    LayerNorm. With x̂ = x/rms: dg = Σ dy ⊙ x̂ and dx = (dy ⊙ g - x̂ · mean(dy ⊙ g ⊙ x̂)) / rms.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
        width = x.shape[-1]
        inverse_rms = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(width).add_(epsilon).rsqrt_()
        ctx.save_for_backward(x, gain, inverse_rms)
        return torch.mul(x, inverse_rms).mul_(gain)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, gain, inverse_rms = ctx.saved_tensors
        width = x.shape[-1]
        # LayerNorm's kernel with mean 0 gives (dy ⊙ g - mean(dy ⊙ g) - x̂ · mean(dy ⊙ g ⊙ x̂)) / rms: one term too many.
        grad_x, grad_gain, _ = torch.ops.aten.native_layer_norm_backward(
            grad, x, [width], torch.zeros_like(inverse_rms), inverse_rms, gain, None, [True, True, False]
        )
        mean = torch.mv(grad.reshape(-1, width), gain).view(inverse_rms.shape).div_(width)
        return grad_x.add_(mean.mul_(inverse_rms)), grad_gain, None
