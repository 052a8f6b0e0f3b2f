"""C++ kernels for the CPU (attnres_cli/native/), built on first use. The functional form is that of `torch`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attnres_cli.native import build
from attnres_cli.native import operators as _operators  # noqa: F401  (declares torch.ops.attnres)
from attnres_cli.residual.operator import Ahead, Consumer, Normed, Site
from attnres_cli.residual.ops.torch import inverse_rms as inverse_rms
from attnres_cli.residual.ops.torch import mix as mix
from attnres_cli.residual.ops.torch import weights as weights

NAME = "cpu"
_ops = torch.ops.attnres


def unusable(device: torch.device) -> str | None:
    if device.type not in ("cpu", "meta"):
        return f"it computes on the CPU, not on {device.type}"
    if device.type == "meta":  # shapes only: what a CPU with this compiler would do, nothing is built
        return None if build.find_compiler() is not None else build.NO_COMPILER
    return build.load()


class CppKernels:
    """`residual.operator.Kernels` by torch.ops.attnres."""

    any_shape = True
    two_phase = True
    groups_sources = True
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
        mixed, peak, total = (None, None, None) if ahead is None else ahead[:3]
        if not backward:
            value, scale, output = _ops.site_forward(
                values, scales, newest, update, query, gain, epsilon, dtype, mixed, peak, total
            )
            return Site(newest if update is None else value, scale, Normed(output, output, scale), scale, scale)
        value, scale, output, kept, rho, logits, log_total = _ops.site(
            values, scales, newest, update, query, gain, epsilon, dtype, mixed, peak, total
        )
        normed = Normed(output, kept if kept.numel() else output, rho)
        return Site(newest if update is None else value, scale, normed, logits, log_total)

    def look_ahead(self, values: Sequence[Tensor], scales: Sequence[Tensor], queries: Tensor) -> Ahead:
        return Ahead(*_ops.look_ahead(values, scales, queries))

    def add_norm(
        self,
        stream: Tensor,
        update: Tensor | None,
        gain: Tensor,
        epsilon: float,
        dtype: torch.dtype,
        backward: bool,
    ) -> tuple[Tensor, Normed]:
        total, output, rho, keep_output = _ops.add_norm(stream, update, gain, epsilon, dtype, backward)
        summed = total if total.numel() else stream
        return summed, Normed(output, output if keep_output else summed, rho)

    def norm_backward(
        self, grad: Tensor, normed: Normed, gain: Tensor, epsilon: float, carry: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        found: tuple[Tensor, Tensor, Tensor] = _ops.norm_backward(
            grad, normed.kept, normed.kept is normed.output, normed.inverse_rms, gain, epsilon, carry
        )
        return found

    def source_backward(
        self,
        values: Sequence[Tensor],
        scales: Sequence[Tensor],
        consumers: Sequence[Sequence[Consumer]],
        carry: Tensor | None,
    ) -> tuple[Sequence[Tensor], Tensor]:
        sites = consumers[0]
        grads, grad_queries = _ops.source_backward(
            values,
            scales,
            [site.grad_mixed for site in sites],
            [site.grad_dot_mixed for site in sites],
            [site.query for site in sites],
            [site.log_total for site in sites],
            [site.logits for row in consumers for site in row],
            [site.column for row in consumers for site in row],
            carry,
        )
        return grads.unbind(0), grad_queries


kernels = CppKernels()
