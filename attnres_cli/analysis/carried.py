"""What a residual scheme carries through depth, counted on the state itself: d-sized representations per token.

A plain residual carries one running stream. A scheme that attends over depth carries its sources, too, and most of them
are finished: they stay as they are until the end. Those are what a pipeline need not send twice and what a prefill has
to keep. Which tensors are finished is seen by walking the state on the meta device; no scheme is asked or named.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnres_cli.analysis.kernels import real_kernels
from attnres_cli.analysis.shapes import QuickShapes
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.protocol import State


@dataclass(frozen=True)
class Carried:
    """finished[n]: representations that are final once n sublayers are done, n = 0 … L, the embedding among them where
    it is kept. kept: those at the end beyond the one that a plain residual has, too (the paper's N)."""

    finished: tuple[int, ...]

    @property
    def kept(self) -> int:
        return self.finished[-1] - 1


@torch.no_grad()
def carried(model: LanguageModel) -> Carried:
    """Walk the state of `model`'s scheme (on the meta device) through depth with empty outputs of one token."""
    width = model.config.d_model
    states: list[State] = []
    with QuickShapes(), real_kernels():  # type: ignore[no-untyped-call]
        state = model.residual.open(_token(width))
        states.append(state)
        for site in model.sites():
            _, state = model.residual.read(state, site)
            state = model.residual.write(state, site, _token(width))
            states.append(state)
    final = {id(tensor) for tensor in states[-1]}
    return Carried(tuple(sum(tensor.numel() // width for tensor in state if id(tensor) in final) for state in states))


def _token(width: int) -> Tensor:
    return torch.empty(1, 1, width, device="meta")
