"""The residual path of a model alone: its sites from the embedding to the final norm, with sublayers that cost nothing.

A sublayer's output is a tensor made beforehand, and so is the gradient that it hands back; what is left is what the
scheme does: sums, mixtures, norms, and their gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnres_cli.bench.traffic import computed_dtype
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.protocol import State
from attnres_cli.train.device import autocast


class ResidualPath:
    """The scheme of `model`, with the norms of its sites, over B sequences of T tokens.

    fused: whether the scheme runs in fused form here.
    """

    def __init__(self, model: LanguageModel, sequences: int, precision: str) -> None:
        self.model, self.precision = model, precision
        self.device = model.embedding.weight.device
        shape = (sequences, model.config.context_tokens, model.config.d_model)
        generator = torch.Generator(self.device).manual_seed(0)

        def drawn(dtype: torch.dtype) -> Tensor:
            return torch.randn(shape, generator=generator, device=self.device).to(dtype)

        dtype = computed_dtype(precision)
        self.embedding = drawn(torch.float32).requires_grad_()
        self.outputs = [drawn(dtype) for _ in model.sites()]
        self.grad_input, self.grad_closed = drawn(dtype), drawn(torch.float32)
        with autocast(precision, self.device):
            self.fused = model.residual.fused_pass(self.embedding) is not None

    @torch.no_grad()
    def forward(self) -> None:
        self.walk()

    def step(self) -> None:
        """Forward and backward; gradients are dropped again."""
        closed = self.walk()
        torch.autograd.backward(closed, self.grad_closed.to(closed.dtype))
        self.embedding.grad = None
        for parameter in self.model.parameters():
            parameter.grad = None

    def walk(self) -> Tensor:
        """From the embedding to what the head would see, [B, T, d]."""
        residual, norm = self.model.residual, self.model.final_norm
        with autocast(self.precision, self.device):
            fused = residual.fused_pass(self.embedding)
            if fused is not None:
                for site, output in zip(self.model.sites(), self.outputs, strict=True):
                    fused.write(site, self._sublayer(fused.read(site), output))
                return fused.close(norm)
            state: State = residual.open(self.embedding)
            for site, output in zip(self.model.sites(), self.outputs, strict=True):
                x, state = residual.read(state, site)
                state = residual.write(state, site, self._sublayer(x, output))
            return residual.close(state, norm)

    def _sublayer(self, x: Any, output: Tensor) -> Tensor:
        """What a sublayer that sees `x` (one tensor, or one per role) gives."""
        inputs = tuple(x.values()) if isinstance(x, dict) else (x,)
        given: Tensor = _Sublayer.apply(output, self.grad_input, *inputs)  # type: ignore[no-untyped-call]
        return given


class _Sublayer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, output: Tensor, grad_input: Tensor, *inputs: Tensor) -> Tensor:
        ctx.grads = tuple(grad_input.to(each.dtype) for each in inputs)
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor | None, ...]:
        return (None, None, *ctx.grads)
