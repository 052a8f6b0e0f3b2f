"""Magnitudes through depth: RMS of every sublayer's input and output, its update share, and the stream (Fig. 5b)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar, cast

import torch
from torch import Tensor, nn

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.protocol import Residual, Site, State, SublayerInput
from attnres_cli.train.device import autocast
from attnres_cli.train.observation import Observation, Probe, numbers, rms

Measure = TypeVar("Measure")


class Measured(Generic[Measure]):
    """One measure of each tensor [B, T, d], by depth.

    inputs [L]: what each sublayer's norm was given. outputs [L]: what the sublayers gave. before [L]: the stream before
    each sublayer. stream [L_b + 1]: index 0 the embedding, then after each transformer block.
    """

    def __init__(self, residual: Residual, measure: Callable[[Tensor], Measure]) -> None:
        self._residual, self._measure = residual, measure
        self._incoming: dict[int, Measure] = {}
        self.inputs: list[Measure] = []
        self.outputs: list[Measure] = []
        self.before: list[Measure] = []
        self.stream: list[Measure] = []

    def norm_input(self, ordinal: int, x: Tensor) -> None:
        self._incoming[ordinal] = self._measure(x)

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None:
        self.before.append(self._measure(self._residual.stream(before)))
        if not self.stream:
            self.stream.append(self.before[0])
        # A scheme that never calls this site's norm shows what it hands the sublayer itself.
        seen = self._incoming.get(site.ordinal)
        self.inputs.append(self._measure(x if isinstance(x, Tensor) else x["q"]) if seen is None else seen)
        self.outputs.append(self._measure(output))
        if site.kind == "feed_forward":
            self.stream.append(self._measure(self._residual.stream(after)))

    def close(self, state: State, output: Tensor) -> None:
        pass


@torch.no_grad()
def observe(model: LanguageModel, probe: Probe) -> Observation:
    """Arrays input_rms [L] (before the sublayer's norm, where the scheme calls it), output_rms [L], update_share [L]
    (output over the stream before it) and stream_rms [L_b + 1] (index 0: the embedding; then after each transformer
    block; the scheme says what its stream is).
    """
    found = measured(model, probe.tokens, probe.precision, rms)
    arrays = {
        "input_rms": torch.stack(found.inputs),
        "output_rms": torch.stack(found.outputs),
        "update_share": torch.stack(found.outputs) / torch.stack(found.before),
        "stream_rms": torch.stack(found.stream),
    }
    return Observation(arrays, {name: numbers(values) for name, values in arrays.items()})


def measured(
    model: LanguageModel, tokens: Tensor, precision: str, measure: Callable[[Tensor], Measure]
) -> Measured[Measure]:
    """Walk once with tokens [B, T] and take this measure of all that passes."""
    watcher = Measured(model.residual, measure)
    with norm_inputs(model, watcher.norm_input), autocast(precision, tokens.device):
        model.walk(tokens, watcher)
    return watcher


@contextmanager
def norm_inputs(model: LanguageModel, record: Callable[[int, Tensor], None]) -> Iterator[None]:
    """While the body runs, tell `record` what each sublayer's norm is given, with the sublayer's ordinal: every scheme
    calls it, wherever it puts it. The final norm counts as that of sublayer L."""

    def telling(ordinal: int) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def hook(module: nn.Module, args: tuple[Tensor, ...]) -> None:
            record(ordinal, args[0])

        return hook

    norms = [cast(nn.Module, site.norm) for site in model.sites()] + [model.final_norm]
    handles = [norm.register_forward_pre_hook(telling(ordinal)) for ordinal, norm in enumerate(norms)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
