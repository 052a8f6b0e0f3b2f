"""Oracles of the tables of a comparison about what is inside the models and what a step costs, of runs and of arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tests.recomputed.arms import Arm, Compared
from tests.recomputed.harness import Oracle, Rows
from tests.recomputed.raw import Row
from tests.recomputed.statistics import mean

SITES = {"attention": "attention", "feed_forward": "feed-forward", "output": "output"}
SHARES = ("embedding_share", "recent_share", "entropy", "maximum")


def magnitudes(compared: Compared) -> Rows:
    """The stream after the first, the middle and the last block (entry 0 is before the first), and how evenly
    gradients fall."""
    rows = []
    for arm in compared.arms:
        stream = arm.observed("magnitudes", "stream_rms")[1:]
        row: dict[str, Any] = dict.fromkeys(
            ("first_block_rms", "middle_block_rms", "last_block_rms", "growth", "largest_rms", "largest_at_block")
        )
        if stream:
            row = {
                "first_block_rms": stream[0],
                "middle_block_rms": stream[math.ceil(len(stream) / 2) - 1],
                "last_block_rms": stream[-1],
                "growth": stream[-1] / stream[0],
                "largest_rms": max(stream),
                "largest_at_block": 1 + stream.index(max(stream)),
            }
        for key in ("parameter", "activation"):
            row[f"{key}_gradient_ratio"] = spread(arm.observed("gradients", f"{key}_grad_norm"))
        rows.append({"run": arm.title, **row})
    return rows


def spread(norms: Sequence[float]) -> float | None:
    return max(norms) / min(norms) if norms else None


def depth_weights(compared: Compared) -> Rows:
    """Means over the sites of a kind that have a choice; of several runs, every site is averaged over the runs
    first."""
    rows: Rows = []
    for arm in compared.arms:
        sites = mean_sites(arm)
        if not sites:
            none = ("count", "embedding_share", "recent_share", "entropy_nats", "entropy_of_uniform", "largest")
            rows.append({"run": arm.title, "sites": None, **dict.fromkeys(none)})
        for kind, words in SITES.items():
            chosen = [site for site in sites if site["kind"] == kind]
            if chosen:
                rows.append(
                    {
                        "run": arm.title,
                        "sites": words,
                        "count": len(chosen),
                        "embedding_share": mean([site["embedding_share"] for site in chosen]),
                        "recent_share": mean([site["recent_share"] for site in chosen]),
                        "entropy_nats": mean([site["entropy"] for site in chosen]),
                        "entropy_of_uniform": mean(
                            [site["entropy"] / math.log(len(site["sources"])) for site in chosen]
                        ),
                        "largest": max(site["maximum"] for site in chosen),
                    }
                )
    return rows


def mean_sites(arm: Arm) -> list[Row]:
    summaries = [summary for run in arm.counted if (summary := run.observed("depth_weights")) is not None]
    sites = []
    for of_runs in zip(*(summary["sites"] for summary in summaries), strict=True):
        if len(of_runs[0]["sources"]) > 1:
            weights = [mean(of_source) for of_source in zip(*(site["mean"] for site in of_runs), strict=True)]
            means = {key: mean([site[key] for site in of_runs]) for key in SHARES}
            sites.append({**of_runs[0], **means, "mean": weights})
    return sites


def cost(compared: Compared) -> Rows:
    """Medians of the samples, and medians of the ratios within a round."""
    rows = []
    base = compared.timings.get(compared.baseline)
    for arm in compared.arms:
        timing = compared.timings.get(arm.label)
        tokens = arm.counted[0].resolved["train"]["tokens_per_step"]
        row: dict[str, Any] = dict.fromkeys(
            ("tokens_per_second", "tokens_per_second_ratio", "step_seconds", "step_ratio", "peak_memory_bytes")
        )
        row["peak_memory_ratio"] = None
        if timing is not None:
            row |= {
                "tokens_per_second": tokens / timing.seconds,
                "step_seconds": timing.seconds,
                "peak_memory_bytes": timing.peak_bytes,
            }
            if arm.label != compared.baseline and base is not None:
                row |= {
                    "tokens_per_second_ratio": 1 / timing.ratio[0],
                    "step_ratio": timing.ratio[0],
                    "peak_memory_ratio": timing.peak_bytes / base.peak_bytes,
                }
        rows.append({"run": arm.title, **row})
    return rows


ORACLES: dict[str, Oracle] = {"magnitudes": magnitudes, "depth_weights": depth_weights, "cost": cost}
BUILT_IN = {
    "magnitudes": "report/tables/magnitudes.py",
    "depth_weights": "report/tables/depth_weights.py",
    "cost": "report/tables/cost.py",
}
