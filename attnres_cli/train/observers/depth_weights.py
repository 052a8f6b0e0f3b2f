"""Depth weights: how much each site takes from each source (Fig. 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.protocol import Residual, Site, State, SublayerInput
from attnres_cli.train.device import autocast
from attnres_cli.train.observation import Observation, Probe, numbers


@dataclass(frozen=True)
class SiteWeights:
    """What one site takes. kind: "attention", "feed_forward" or "output" (ordinal L). weights: [sources, tokens] in
    float64."""

    ordinal: int
    kind: str
    sources: tuple[str, ...]
    weights: Tensor


class _Weights:
    """Asks the scheme at every site."""

    def __init__(self, residual: Residual) -> None:
        self.residual = residual
        self.sites: list[SiteWeights] = []

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None:
        self._record(before, site.ordinal, site.kind)

    def close(self, state: State, output: Tensor) -> None:
        self._record(state, self.residual.geometry.num_sublayers, "output")

    def _record(self, state: State, ordinal: int, kind: str) -> None:
        found = self.residual.depth_weights(state, ordinal)
        if found is not None:
            self.sites.append(SiteWeights(ordinal, kind, found[0], found[1].double().flatten(1)))


@torch.no_grad()
def observe(model: LanguageModel, probe: Probe) -> Observation | None:
    """Array mean_weight [L + 1, sources] (zero where a site has fewer sources) and a summary per site. None for a
    scheme that does not mix."""
    weights = weights_by_site(model, probe.tokens, probe.precision)
    if not weights:
        return None
    sites = [described(each) for each in weights]
    return Observation({"mean_weight": mean_weights(sites)}, {"sites": sites})


@torch.no_grad()
def weights_by_site(model: LanguageModel, tokens: Tensor, precision: str) -> list[SiteWeights]:
    """Of every site of a scheme that chooses its sources, tokens [B, T]; empty for one that does not."""
    watcher = _Weights(model.residual)
    with autocast(precision, tokens.device):
        model.walk(tokens, watcher)
    return watcher.sites


def described(site: SiteWeights) -> dict[str, Any]:
    """Mean weight of each source, entropy in nats (of each token's weights, averaged over tokens), the largest mean
    weight, embedding_share and recent_share (mean weight of the oldest and of the newest source)."""
    mean = site.weights.mean(1)
    entropy = torch.special.entr(site.weights).sum(0).mean()
    return {
        "ordinal": site.ordinal,
        "kind": site.kind,
        "sources": list(site.sources),
        "mean": numbers(mean),
        "entropy": float(entropy),
        "maximum": float(mean.max()),
        "embedding_share": float(mean[0]),
        "recent_share": float(mean[-1]),
    }


def mean_weights(sites: list[dict[str, Any]]) -> Tensor:
    """The means of described sites as a table [sites, sources], zero where a site has fewer."""
    table = torch.zeros(len(sites), max(len(site["sources"]) for site in sites), dtype=torch.float64)
    for row, site in enumerate(sites):
        table[row, : len(site["mean"])] = torch.tensor(site["mean"], dtype=torch.float64)
    return table
