"""Causal importance: what the loss gains when a source is taken away from every site, beside the weight that it had.

*Ablating a source*: at every site that may choose it, the source is masked and the choice is made among the rest, by
the same logits (`residual/alteration.py` says what that is for weights that do not add up to one). All that the site
and later ones compute follows from there. Families of sources are ablated together: the embedding, outputs of
attention and of feed-forwards from the early and the late half of depth, sums of outputs, the sum that still grows.

A site whose sources would all be masked keeps them: it has nothing else to read. Such sites are listed as `spared`, and
count neither for Δ nor for the mean weight; the first sublayer, with the embedding as its only source, is one.

    Δ = mean over sequences of (loss with the source ablated - loss of the whole model), nats per token
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnres_cli.analysis.paired import mean_interval
from attnres_cli.probe.altered import altered_losses
from attnres_cli.probe.intervals import CONFIDENCE
from attnres_cli.probe.subject import Findings, Subject
from attnres_cli.residual.alteration import UNALTERED, Alteration
from attnres_cli.train.observers.depth_weights import SiteWeights, weights_by_site

TITLE = "Causal importance"
NOTHING = "this scheme does not choose among sources"

# A site, by its ordinal, and one of its sources.
Pair = tuple[int, str]
# By site: the mean weight of each of its sources, over all tokens.
Weights = Mapping[int, Mapping[str, float]]


@torch.no_grad()
def measure(subject: Subject) -> Findings | None:
    """summary.sources and summary.families: lists of source, mean_weight (of a family: its members' sum; over the sites
    where it is ablated), sites (how many those are), spared (sites that keep it, by ordinal), and delta with low and
    high, its 95 % interval (Student's t over sequences; None of one sequence alone). whole_loss: nats per token.
    A source that no site could do without is not listed.
    """
    weights = _mean_weights(subject)
    if not weights:
        return None
    pairs = [(site, name) for site, by_name in weights.items() for name in by_name]
    family_of = subject.model.residual.source_family
    sources = _ablations([(name, (site, name)) for site, name in pairs], weights)
    families = _ablations([(family_of(name, site), (site, name)) for site, name in pairs], weights)
    losses = altered_losses(subject, [UNALTERED, *(each.alteration for each in (*sources, *families))])
    return Findings(
        {
            "sources": [_row(each, losses) for each in sources],
            "families": [_row(each, losses) for each in families],
            "whole_loss": float(losses[UNALTERED].mean()),
        }
    )


@dataclass(frozen=True)
class _Ablation:
    """What is masked together. sites: at how many; spared: those that it is all of; mean_weight: what it had there."""

    name: str
    alteration: Alteration
    sites: int
    spared: list[int]
    mean_weight: float


def _ablations(named: Sequence[tuple[str | None, Pair]], weights: Weights) -> list[_Ablation]:
    """One per name, in order of appearance: of all (site, source) pairs that have it."""
    by_name: dict[str, set[Pair]] = {}
    for name, pair in named:
        if name is not None:
            by_name.setdefault(name, set()).add(pair)
    found = []
    for name, pairs in by_name.items():
        everywhere = sorted({site for site, _ in pairs})
        spared = [site for site in everywhere if all((site, source) in pairs for source in weights[site])]
        masked = frozenset(pair for pair in pairs if pair[0] not in spared)
        if masked:
            sites = len(everywhere) - len(spared)
            mean_weight = math.fsum(weights[site][source] for site, source in masked) / sites
            found.append(_Ablation(name, Alteration(masked=masked), sites, spared, mean_weight))
    return found


def _row(ablation: _Ablation, losses: Mapping[Alteration, Tensor]) -> dict[str, Any]:
    differences = losses[ablation.alteration] - losses[UNALTERED]
    delta, low, high = mean_interval(differences.tolist(), confidence=CONFIDENCE)
    return {
        "source": ablation.name,
        "mean_weight": ablation.mean_weight,
        "sites": ablation.sites,
        "spared": ablation.spared,
        "delta": delta,
        "low": None if math.isnan(low) else low,
        "high": None if math.isnan(high) else high,
    }


def _mean_weights(subject: Subject) -> dict[int, dict[str, float]]:
    """By site; empty for a scheme that does not choose."""
    batches = [weights_by_site(subject.model, tokens, subject.precision) for tokens, _ in subject.batches]
    return {of_batches[0].ordinal: dict(_means(of_batches)) for of_batches in zip(*batches, strict=True)}


def _means(of_batches: Sequence[SiteWeights]) -> Iterator[tuple[str, float]]:
    joined = torch.cat([each.weights for each in of_batches], dim=1)
    return zip(of_batches[0].sources, joined.mean(1).tolist(), strict=True)
