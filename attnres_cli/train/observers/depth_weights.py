"""Depth weights: how much each site takes from each source (Fig. 8)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.protocol import Residual, Site, State, SublayerInput
from attnres_cli.train.device import autocast
from attnres_cli.train.observation import Observation, Probe, numbers


class _Weights:
    """One row per site: names of its sources and their weights [sources, B, T]."""

    def __init__(self, residual: Residual) -> None:
        self.residual = residual
        self.rows: list[tuple[int, str, tuple[str, ...], Tensor]] = []

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None:
        self._record(before, site.ordinal, site.kind)

    def close(self, state: State, output: Tensor) -> None:
        self._record(state, self.residual.geometry.num_sublayers, "output")

    def _record(self, state: State, ordinal: int, kind: str) -> None:
        found = self.residual.depth_weights(state, ordinal)
        if found is not None:
            self.rows.append((ordinal, kind, *found))


@torch.no_grad()
def observe(model: LanguageModel, probe: Probe) -> Observation | None:
    """Array mean_weight [L + 1, sources] (zero where a site has fewer sources) and a summary per site: mean weight
    of each source, entropy in nats (of each token's weights, averaged over tokens), the largest mean weight,
    embedding_share and recent_share (mean weight of the oldest and of the newest source). None for a scheme that
    does not mix."""
    watcher = _Weights(model.residual)
    with autocast(probe.precision, probe.tokens.device):
        model.walk(probe.tokens, watcher)
    if not watcher.rows:
        return None
    sites = [_site(*row) for row in watcher.rows]
    table = torch.zeros(len(sites), max(len(site["sources"]) for site in sites), dtype=torch.float64)
    for row, site in enumerate(sites):
        table[row, : len(site["mean"])] = torch.tensor(site["mean"], dtype=torch.float64)
    return Observation({"mean_weight": table}, {"sites": sites})


def _site(ordinal: int, kind: str, sources: tuple[str, ...], weights: Tensor) -> dict[str, Any]:
    weights = weights.double().flatten(1)
    mean = weights.mean(1)
    entropy = torch.special.entr(weights).sum(0).mean()
    return {
        "ordinal": ordinal,
        "kind": kind,
        "sources": list(sources),
        "mean": numbers(mean),
        "entropy": float(entropy),
        "maximum": float(mean.max()),
        "embedding_share": float(mean[0]),
        "recent_share": float(mean[-1]),
    }
