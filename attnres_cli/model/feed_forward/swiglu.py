"""SwiGLU (Shazeer, arXiv 2002.05202): down(silu(gate x) ⊙ up x), gate and up in one fused matrix."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnres_cli.model.sublayer import MatrixSpec, Project, Sublayer
from attnres_cli.native import PLAIN_PASS_DEVICES, operators
from attnres_cli.preset.schema import ModelConfig
from attnres_cli.residual.protocol import SublayerInput


class FeedForward(Sublayer):
    """Three matrices of d_model × d_ff; the first two are fused, gate rows first."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.d_ff = config.resolved_d_ff
        self.gate_up = nn.Linear(config.d_model, 2 * self.d_ff, bias=False)
        self.down = nn.Linear(self.d_ff, config.d_model, bias=False)

    def forward(self, x: SublayerInput, project: Project | None = None) -> Tensor:
        assert isinstance(x, Tensor), "a feed-forward has one input"
        out: Tensor = self.down(gated(self.gate_up(x)))
        return out

    def matrices(self) -> dict[str, MatrixSpec]:
        return {
            "gate_up.weight": MatrixSpec(("gate", "up"), writes_residual=False, split_rows=(self.d_ff, self.d_ff)),
            "down.weight": MatrixSpec(("down",), writes_residual=True),
        }

    def forward_flops_per_token(self, context_tokens: int) -> float:
        return 2.0 * (self.gate_up.weight.numel() + self.down.weight.numel())


def gated(gate_up: Tensor) -> Tensor:
    """silu(gate) ⊙ up of [..., 2 f], gate first: [..., f]."""
    if operators.usable(gate_up):
        fused: Tensor = _NativeGated.apply(gate_up)  # type: ignore[no-untyped-call]
        return fused
    full_precision = gate_up.dtype in (torch.float32, torch.float64)
    if full_precision and gate_up.device.type in PLAIN_PASS_DEVICES and not torch.compiler.is_compiling():
        out: Tensor = _CpuGated.apply(gate_up)  # type: ignore[no-untyped-call]
        return out
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


class _NativeGated(torch.autograd.Function):
    """The same in one pass each way, in C++; nothing is kept but the input."""

    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        ctx.save_for_backward(gate_up)
        out: Tensor = torch.ops.attnres.swiglu(gate_up.reshape(-1, gate_up.shape[-1]))
        return out.view(*gate_up.shape[:-1], -1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (gate_up,) = ctx.saved_tensors
        rows = grad.reshape(-1, grad.shape[-1]).contiguous()
        out: Tensor = torch.ops.attnres.swiglu_backward(rows, gate_up.reshape(-1, gate_up.shape[-1]))
        return out.view_as(gate_up)


class _CpuGated(torch.autograd.Function):
    """The same from plain passes. On halves of a fused matrix PyTorch's CPU silu_backward takes twice its usual
    time, and autograd joins the two halves of the gradient with one more pass.

    With s = σ(gate) and a = gate s = silu(gate): a' = s + a (1 - s) = a + s (1 - a), one linear interpolation.
    """

    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        sigmoid = torch.sigmoid(gate)
        activated = gate * sigmoid
        ctx.save_for_backward(gate_up, sigmoid, activated)
        return activated * up

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        gate_up, sigmoid, activated = ctx.saved_tensors
        _, up = gate_up.chunk(2, dim=-1)
        grad_gate_up = torch.empty_like(gate_up)
        grad_gate, grad_up = grad_gate_up.chunk(2, dim=-1)
        torch.mul(activated, grad, out=grad_up)
        slope = torch.lerp(activated, activated.new_ones(()), sigmoid)
        torch.mul(slope.mul_(up), grad, out=grad_gate)
        return grad_gate_up
