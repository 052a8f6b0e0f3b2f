"""Gradients through depth: norm per transformer block of its parameters' gradient (Fig. 5c) and of its stream's."""

from __future__ import annotations

from itertools import islice

import torch
from torch import Tensor

from attnres_cli.model.cross_entropy import IGNORED_TARGET, summed_cross_entropy
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.protocol import Residual, Site, State, SublayerInput
from attnres_cli.train.device import autocast
from attnres_cli.train.observation import Observation, Probe, numbers


class _Streams:
    """Keeps what the scheme's stream is made of after each transformer block, with its graph."""

    def __init__(self, residual: Residual) -> None:
        self.residual = residual
        self.streams: list[tuple[Tensor, ...]] = []

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None:
        if site.kind == "feed_forward":
            self.streams.append(self.residual.stream_parts(after))

    def close(self, state: State, output: Tensor) -> None:
        pass


def observe(model: LanguageModel, probe: Probe) -> Observation:
    """Arrays parameter_grad_norm [L_b] and activation_grad_norm [L_b] of the mean loss on the probe batch, before
    clipping; of the stream, or of all tensors together that it is made of (several streams count as one vector).

    The gradients are taken beside the model's own `.grad`, which stays untouched.
    """
    watcher = _Streams(model.residual)
    with torch.enable_grad(), autocast(probe.precision, probe.tokens.device):
        closed = model.walk(probe.tokens, watcher)
        total = summed_cross_entropy(closed.flatten(0, 1), model.head_weight, probe.targets.flatten())
        loss = total / (probe.targets != IGNORED_TARGET).sum().clamp(min=1)
    per_block = [[p for p in block.parameters() if p.requires_grad] for block in model.blocks]
    wanted = [parameter for parameters in per_block for parameter in parameters]
    parts = [part for stream in watcher.streams for part in stream]
    gradients = torch.autograd.grad(loss, wanted + parts, allow_unused=True)
    by_parameter = dict(zip(map(id, wanted), gradients[: len(wanted)], strict=True))
    to_parts = iter(gradients[len(wanted) :])
    arrays = {
        "parameter_grad_norm": torch.stack([_norm([by_parameter[id(p)] for p in block]) for block in per_block]),
        "activation_grad_norm": torch.stack([_norm(list(islice(to_parts, len(each)))) for each in watcher.streams]),
    }
    return Observation(arrays, {name: numbers(values) for name, values in arrays.items()})


def _norm(gradients: list[Tensor | None]) -> Tensor:
    """L2 norm over several gradients in float64; a tensor that the loss does not reach counts as zero."""
    squares = [gradient.double().square().sum() for gradient in gradients if gradient is not None]
    return torch.stack(squares).sum().sqrt() if squares else torch.zeros((), dtype=torch.float64)
