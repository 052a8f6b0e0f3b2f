"""Oracles of `attnres probe`: what is read from which source, and what it is worth, by docs/probe.md."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.recomputed.harness import Oracle, Rows
from tests.recomputed.probed_runs import Runs

KINDS = {"attention": "attention", "feed_forward": "feed-forward", "output": "output"}


def depth_weights(runs: Runs) -> Rows:
    """Means over the sites of a kind that have two sources or more; shares and the largest from the mean weights."""
    rows = []
    for each in runs:
        summary = each.summary("depth-weights")
        if summary is None:
            continue
        weights = each.array("depth-weights", "mean_weight")
        for kind, words in KINDS.items():
            sites = [site for site in summary["sites"] if site["kind"] == kind and len(site["sources"]) > 1]
            read = [weights[site["ordinal"], : len(site["sources"])] for site in sites]
            if sites:
                rows.append(
                    {
                        "run": each.label,
                        "sites": words,
                        "count": len(sites),
                        "embedding_share": float(np.mean([weight[0] for weight in read])),
                        "recent_share": float(np.mean([weight[-1] for weight in read])),
                        "maximum": float(np.mean([weight.max() for weight in read])),
                        "entropy_nats": float(np.mean([site["entropy"] for site in sites])),
                        "token_deviation": float(np.mean([np.mean(site["token_deviation"]) for site in sites])),
                    }
                )
    return rows


def mixing(runs: Runs) -> Rows:
    """Shares of a row's absolute weights, mean over the sites but the first, which has the embedding alone. Effective
    rank: exp of the entropy of the singular values of M with such rows."""
    rows = []
    for each in runs:
        matrix = np.abs(each.array("mixing", "matrix"))
        sizes = matrix.sum(axis=1)
        singular = np.linalg.svd(each.array("mixing", "matrix") / sizes[:, None], compute_uv=False)
        shares = singular / singular.sum()
        shares = shares[shares > 0]
        deviation = each.array("mixing", "token_deviation")
        sites = range(1, len(matrix))
        rows.append(
            {
                "run": each.label,
                "sites": len(matrix),
                "effective_rank": float(np.exp(-(shares * np.log(shares)).sum())),
                "embedding_share": float(np.mean([matrix[site, 0] / sizes[site] for site in sites])),
                "recent_share": float(np.mean([matrix[site, site] / sizes[site] for site in sites])),
                "token_deviation": float(np.mean([deviation[site, : site + 1].mean() / sizes[site] for site in sites])),
            }
        )
    return rows


def importance(kind: str, runs: Runs) -> Rows:
    """As it was found: there is no array of it."""
    return [
        {
            "run": each.label,
            "source": found["source"],
            "mean_weight": found["mean_weight"],
            "delta_nats": found["delta"],
        }
        for each in runs
        for found in (each.summary("importance") or {}).get(kind, [])
    ]


ORACLES: dict[str, Oracle] = {
    "depth_weights": depth_weights,
    "mixing": mixing,
    "importance_of_families": partial(importance, "families"),
    "importance_of_sources": partial(importance, "sources"),
}
BUILT_IN = {
    "depth_weights": "report/probes/depth_weights.py",
    "mixing": "report/probes/mixing.py",
    "importance_of_families": "report/probes/importance.py",
    "importance_of_sources": "report/probes/importance.py",
}
