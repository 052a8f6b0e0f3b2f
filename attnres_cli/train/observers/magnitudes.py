"""Magnitudes through depth: RMS of every sublayer's input and output, its update share, and the stream (Fig. 5b)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.protocol import Residual, Site, State, SublayerInput
from attnres_cli.train.device import autocast
from attnres_cli.train.observation import Observation, Probe, numbers, rms


class _Magnitudes:
    """Collects one number per sublayer; `incoming` holds what each sublayer's norm was given."""

    def __init__(self, residual: Residual) -> None:
        self.residual = residual
        self.incoming: dict[int, Tensor] = {}
        self.input_rms: list[Tensor] = []
        self.output_rms: list[Tensor] = []
        self.update_share: list[Tensor] = []
        self.stream_rms: list[Tensor] = []

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None:
        stream = rms(self.residual.stream(before))
        if not self.stream_rms:
            self.stream_rms.append(stream)
        # A scheme that never calls this site's norm shows what it hands the sublayer itself.
        seen = x if isinstance(x, Tensor) else x["q"]
        self.input_rms.append(self.incoming.get(site.ordinal, rms(seen)))
        self.output_rms.append(rms(output))
        self.update_share.append(self.output_rms[-1] / stream)
        if site.kind == "feed_forward":
            self.stream_rms.append(rms(self.residual.stream(after)))

    def close(self, state: State, output: Tensor) -> None:
        pass


@torch.no_grad()
def observe(model: LanguageModel, probe: Probe) -> Observation:
    """Arrays input_rms [L] (before the sublayer's norm, where the scheme calls it), output_rms [L], update_share [L]
    (output over the stream before it) and stream_rms [L_b + 1] (index 0: the embedding; then after each transformer
    block; the scheme says what its stream is).
    """
    watcher = _Magnitudes(model.residual)
    with _norm_inputs(model, watcher.incoming), autocast(probe.precision, probe.tokens.device):
        model.walk(probe.tokens, watcher)
    arrays = {
        name: torch.stack(getattr(watcher, name)) for name in ("input_rms", "output_rms", "update_share", "stream_rms")
    }
    return Observation(arrays, {name: numbers(values) for name, values in arrays.items()})


@contextmanager
def _norm_inputs(model: LanguageModel, incoming: dict[int, Tensor]) -> Iterator[None]:
    """Record the RMS of what each site's norm is given: every scheme calls it, wherever it puts it."""

    def record(ordinal: int) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def hook(module: nn.Module, args: tuple[Tensor, ...]) -> None:
            incoming[ordinal] = rms(args[0])

        return hook

    handles = [cast(nn.Module, site.norm).register_forward_pre_hook(record(site.ordinal)) for site in model.sites()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
