"""Whether a norm's epsilon weighs at initialisation.

The mean of n sources is n times smaller than their sum, so an epsilon that is nothing for one scheme can rule another's
first steps (docs/fairness.md). What counts is epsilon over the smallest mean square that it is added to.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.norm import RMSNorm
from attnres_cli.residual.protocol import Site, State, SublayerInput


@torch.no_grad()
def smallest_mean_square(model: LanguageModel, tokens: Tensor) -> float:
    """The smallest mean square over channels that any norm meets: inputs of all RMSNorms, and the scheme's sources.

    model: with real values; tokens: [B, T] on its device.
    """
    smallest = _Smallest(model.config.d_model)
    hooks = [
        module.register_forward_pre_hook(smallest.norm) for module in model.modules() if isinstance(module, RMSNorm)
    ]
    try:
        model.walk(tokens, smallest)
    finally:
        for hook in hooks:
            hook.remove()
    return smallest.value


class _Smallest:
    """Watches the trunk; sources of a depth softmax are normalised as keys, so everything in the state counts."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.value = float("inf")

    def norm(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._see(inputs[0])

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None:
        for tensor in after:
            if tensor.shape[-1] == self._width:
                self._see(tensor)

    def close(self, state: State, output: Tensor) -> None:
        pass

    def _see(self, x: Tensor) -> None:
        self.value = min(self.value, float(x.float().square().mean(-1).min()))
