"""Gradients through depth: norm per transformer block of its parameters' gradient (Fig. 5c) and of its stream's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import torch
from torch import Tensor, nn

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
    clipping; of the stream, or of all tensors together that it is made of (several streams count as one vector)."""
    per_block = parameters_by_block(model)
    wanted = [parameter for parameters in per_block for parameter in parameters]
    gradients, of_streams = mean_loss_gradients(model, [(probe.tokens, probe.targets)], probe.precision, wanted)
    remaining = iter(gradients)
    arrays = {
        "parameter_grad_norm": torch.stack([grad_norm(list(islice(remaining, len(each)))) for each in per_block]),
        "activation_grad_norm": of_streams,
    }
    return Observation(arrays, {name: numbers(values) for name, values in arrays.items()})


def parameters_by_block(model: LanguageModel) -> list[list[nn.Parameter]]:
    """The trained parameters of each transformer block: its sublayers and their norms."""
    return [[p for p in block.parameters() if p.requires_grad] for block in model.blocks]


def mean_loss_gradients(
    model: LanguageModel,
    batches: Iterable[tuple[Tensor, Tensor]],
    precision: str,
    wanted: Sequence[nn.Parameter],
) -> tuple[list[Tensor | None], Tensor]:
    """Of the mean loss over all counted targets of the batches (tokens, targets), each [B, T]: the gradient of each
    parameter `wanted` (None: the loss does not reach it), and the norm [L_b] of the gradient of the stream after each
    transformer block, over all batches together.

    The gradients are taken beside the model's own `.grad`, which stays untouched.
    """
    batches = list(batches)
    counted = torch.stack([(targets != IGNORED_TARGET).sum() for _, targets in batches]).sum().clamp(min=1)
    sums: list[Tensor | None] = [None] * len(wanted)
    of_streams = torch.zeros(len(model.blocks), dtype=torch.float64)
    for tokens, targets in batches:
        watcher = _Streams(model.residual)
        with torch.enable_grad(), autocast(precision, tokens.device):
            closed = model.walk(tokens, watcher)
            total = summed_cross_entropy(closed.flatten(0, 1), model.head_weight, targets.flatten())
            loss = total / counted
        parts = [part for stream in watcher.streams for part in stream]
        gradients = torch.autograd.grad(loss, [*wanted, *parts], allow_unused=True)
        for index, gradient in enumerate(gradients[: len(wanted)]):
            before = sums[index]
            sums[index] = gradient if before is None else before if gradient is None else before + gradient
        to_parts = iter(gradients[len(wanted) :])
        norms = [grad_norm(list(islice(to_parts, len(stream)))) for stream in watcher.streams]
        of_streams = torch.hypot(of_streams, torch.stack(norms))
    return sums, of_streams


def grad_norm(gradients: Sequence[Tensor | None]) -> Tensor:
    """L2 norm over several gradients in float64, on the CPU; a tensor that the loss does not reach counts as zero."""
    squares = [gradient.double().square().sum() for gradient in gradients if gradient is not None]
    return torch.stack(squares).sum().sqrt().cpu() if squares else torch.zeros((), dtype=torch.float64)
