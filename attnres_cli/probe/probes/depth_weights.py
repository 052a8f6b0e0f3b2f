"""What every site takes from which source, how much that varies from token to token, and which sources are sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from attnres_cli.probe.subject import Findings, Subject
from attnres_cli.train.observation import numbers
from attnres_cli.train.observers.depth_weights import SiteWeights, described, mean_weights, weights_by_site

TITLE = "Depth weights"
NOTHING = "this scheme does not choose among sources"

KINDS = ("attention", "feed_forward", "output")
# A source is drawn on like a sink at a site: at least this many times its even share on average …
SINK_SHARE = 1.5
# … and with a standard deviation over tokens of at most this part of its mean.
SINK_DEVIATION = 0.25
# At so many sites at least may a source be chosen before it can be called a sink.
FEWEST_SITES = 2


@torch.no_grad()
def measure(subject: Subject) -> Findings | None:
    """Array mean_weight [L + 1, sources] and a summary: the observer's figures and token_deviation per source and site,
    their means by kind of site, and the sinks."""
    batches = [weights_by_site(subject.model, tokens, subject.precision) for tokens, _ in subject.batches]
    if not batches[0]:
        return None
    sites = [_site(site) for site in map(_joined, zip(*batches, strict=True))]
    summary = {"sites": sites, "by_kind": _by_kind(sites), "sinks": sinks(sites)}
    return Findings(summary, {"mean_weight": mean_weights(sites).numpy()})


def _joined(of_batches: Sequence[SiteWeights]) -> SiteWeights:
    first = of_batches[0]
    return SiteWeights(first.ordinal, first.kind, first.sources, torch.cat([each.weights for each in of_batches], 1))


def _site(site: SiteWeights) -> dict[str, Any]:
    return {**described(site), "token_deviation": numbers(site.weights.std(1, correction=0))}


def _by_kind(sites: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over the sites of a kind that have a choice: two sources or more. token_deviation: first over a site's
    sources."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        chosen = [site for site in sites if site["kind"] == kind and len(site["sources"]) > 1]
        if chosen:
            figures = ("entropy", "maximum", "embedding_share", "recent_share")
            found[kind] = {"sites": len(chosen), **{name: _mean([site[name] for site in chosen]) for name in figures}}
            found[kind]["token_deviation"] = _mean([_mean(site["token_deviation"]) for site in chosen])
    return found


def sinks(sites: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sources that get a high weight whatever the token, the strongest first.

    At a site with n ≥ 2 sources one that is not the newest is drawn on like a sink where its mean weight is at least
    SINK_SHARE / n and its standard deviation over tokens at most SINK_DEVIATION of that mean. (The newest is left out:
    that a sublayer takes most from the one before it is locality.) A source is a sink where that holds at half or more
    of the sites that could choose it, the newest not counted, and there are FEWEST_SITES of those.
    mean_weight, token_deviation: means over all these sites; sites: where it is drawn on so, of_sites.
    """
    chances: dict[str, list[tuple[float, float, int]]] = {}
    for site in sites:
        *older, _newest = zip(site["sources"], site["mean"], site["token_deviation"], strict=True)
        for source, mean, deviation in older:
            chances.setdefault(source, []).append((mean, deviation, len(site["sources"])))
    found = []
    for source, seen in chances.items():
        drawn = [mean >= SINK_SHARE / count and deviation <= SINK_DEVIATION * mean for mean, deviation, count in seen]
        if len(seen) >= FEWEST_SITES and 2 * sum(drawn) >= len(seen):
            found.append(
                {
                    "source": source,
                    "sites": sum(drawn),
                    "of_sites": len(seen),
                    "mean_weight": _mean([mean for mean, _, _ in seen]),
                    "token_deviation": _mean([deviation for _, deviation, _ in seen]),
                }
            )
    return sorted(found, key=lambda sink: -sink["mean_weight"])


def _mean(values: Sequence[float]) -> float:
    return float(sum(values) / len(values))
