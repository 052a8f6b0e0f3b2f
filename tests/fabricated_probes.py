"""What `attnres probe` would leave in a run, made by simple formulas of block, sublayer and source: nothing is probed.

`fabricate_probes(run)` writes the files of all eight probes into a run of tests/fabricated_runs.py, as
docs/run-directory.md describes them. `better_by` shifts every figure, so that no two arms hold the same number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnres_cli.runs import probed
from attnres_cli.runs.directory import RunDirectory
from tests.fabricated_runs import observations

SEQUENCES, TOKENS = 64, 8192
PLAIN = "prenorm"  # the scheme that chooses no sources
Found = tuple[dict[str, Any] | None, dict[str, npt.NDArray[np.float64]]]
ALL = ("magnitudes", "gradients", "depth-weights", "mixing", "importance", "removal", "smoothing", "lens")


def fabricate_probes(
    run: RunDirectory, *, step: int = 100, better_by: float = 0.0, only: tuple[str, ...] = ALL
) -> RunDirectory:
    """Write what the probes `only` found in the checkpoint of `step`."""
    resolved = run.resolved()
    blocks, plain = resolved["model"]["transformer_blocks"], resolved["residual"]["scheme"] == PLAIN
    found = findings(blocks, plain=plain, better_by=better_by)
    for name in only:
        summary, arrays = found[name]
        facts: dict[str, Any] = {"title": name.capitalize(), "sequences": SEQUENCES, "tokens": TOKENS, "key": "f" * 64}
        if summary is None:
            facts["nothing"] = "this scheme has nothing of the kind"
        probed.write(run, name, step, facts, summary, arrays)
    return run


def findings(blocks: int, *, plain: bool, better_by: float) -> dict[str, Found]:
    """Of all eight probes: (summary, arrays)."""
    return {
        "magnitudes": _magnitudes(blocks, better_by),
        "gradients": _gradients(blocks, better_by),
        "depth-weights": (None, {}) if plain else _depth_weights(blocks),
        "mixing": _mixing(blocks, plain, better_by),
        "importance": (None, {}) if plain else _importance(blocks, better_by),
        "removal": _removal(blocks, better_by),
        "smoothing": _smoothing(blocks, better_by),
        "lens": _lens(blocks, better_by),
    }


def _magnitudes(blocks: int, better_by: float) -> Found:
    sublayer, stop = np.arange(2.0 * blocks), np.arange(blocks + 1.0)
    inputs, outputs = 0.1 + 0.05 * sublayer, 0.2 + 0.01 * sublayer
    exponent = 1.2 - 2 * better_by
    stream = np.where(stop == 0, 0.02, 0.3 * np.maximum(stop, 1) ** exponent)
    arrays = {
        "input_rms": inputs,
        "input_rms_max": 2.5 * inputs,
        "input_l2": 8 * inputs,
        "output_rms": outputs,
        "output_rms_max": 4 * outputs,
        "output_l2": 8 * outputs,
        "output_max_abs": 9 * outputs,
        "output_kurtosis": 3.2 + 0.1 * sublayer,
        "update_share": 0.5 / (sublayer + 1),
        "stream_rms": stream,
        "stream_rms_max": 3 * stream,
        "stream_l2": 8 * stream,
        "stream_max_abs": 12 * stream,
        "stream_kurtosis": 3.5 + 0.4 * stop,
    }
    growth = {"estimate": exponent, "low": exponent - 0.15, "high": exponent + 0.15}
    return {"growth_exponent": growth}, arrays


def _gradients(blocks: int, better_by: float) -> Found:
    block = np.arange(1.0, blocks + 1)
    arrays = {"parameter_grad_norm": 0.5 / block + better_by, "activation_grad_norm": 0.004 * block}
    kinds = ("embedding", "query", "key", "value", "output", "gate", "up", "down", "norm gain")
    norms = {name: array.tolist() for name, array in arrays.items()}
    return {
        "grad_norm_by_kind": {kind: 0.3 / (index + 1) + better_by for index, kind in enumerate(kinds)},
        "spread_max_over_min": {key.partition("_")[0]: max(each) / min(each) for key, each in norms.items()},
        "coefficient_of_variation": {
            key.partition("_")[0]: float(np.std(each) / np.mean(each)) for key, each in norms.items()
        },
    }, arrays


def _depth_weights(blocks: int) -> Found:
    resolved = {"model": {"transformer_blocks": blocks}, "residual": {"scheme": "attnres-block"}}
    rows = observations(resolved, 0, 0, 0.0)
    sites = next(row["summary"]["sites"] for row in rows if row["observer"] == "depth_weights")
    for site in sites:
        site["token_deviation"] = [0.2 * mean / (1 + place) for place, mean in enumerate(site["mean"])]
    table = np.zeros((len(sites), max(len(site["mean"]) for site in sites)))
    for row, site in zip(table, sites, strict=True):
        row[: len(site["mean"])] = site["mean"]
    choosing = [site for site in sites if len(site["mean"]) > 1]
    by_kind = {
        kind: {
            "sites": len(chosen),
            **{
                key: float(np.mean([site[key] for site in chosen]))
                for key in ("entropy", "maximum", "embedding_share", "recent_share")
            },
            "token_deviation": float(np.mean([np.mean(site["token_deviation"]) for site in chosen])),
        }
        for kind in ("attention", "feed_forward", "output")
        if (chosen := [site for site in choosing if site["kind"] == kind])
    }
    sinks = [{"source": "block 1", "sites": 4, "of_sites": 7, "mean_weight": 0.41, "token_deviation": 0.03}]
    return {"sites": sites, "by_kind": by_kind, "sinks": sinks}, {"mean_weight": table}


def _mixing(blocks: int, plain: bool, better_by: float) -> Found:
    size = 2 * blocks + 1
    row, column = np.indices((size, size))
    weights = np.where(column <= row, 1.0 if plain else np.exp(0.1 * (1 + better_by) * column), 0.0)
    matrix = weights if plain else weights / weights.sum(1, keepdims=True)
    sublayers = [f"{('attention', 'feed_forward')[n % 2]} {n // 2}" for n in range(size - 1)]
    summary = {"effective_rank": 0.6 * size - better_by, "sources": ["embedding", *sublayers]}
    deviation = np.zeros_like(matrix) if plain else 0.1 * matrix
    return summary, {"matrix": matrix, "token_deviation": deviation}


def _importance(blocks: int, better_by: float) -> Found:
    def row(source: str, place: int) -> dict[str, Any]:
        delta = 0.4 / (1 + place) + better_by
        return {"source": source, "mean_weight": 0.3 / (1 + place), "sites": 2 * blocks - place, "spared": [0],
                "delta": delta, "low": 0.8 * delta,
                "high": 1.2 * delta}  # fmt: skip

    sources = ["embedding", *(f"block {n}" for n in range(1, 1 + (2 * blocks + 3) // 4))]
    families = ["embedding", "attention", "feed_forward"]
    return {
        "sources": [row(source, place) for place, source in enumerate(sources)],
        "families": [row(family, place) for place, family in enumerate(families)],
        "whole_loss": 1.6 - better_by,
    }, {}


def _removal(blocks: int, better_by: float) -> Found:
    block = np.arange(float(blocks))
    order = list(range(blocks - 2, 0, -1)) + [blocks - 1, 0]
    series = {
        "skip_delta": 0.8 / (1 + block) + better_by,
        "truncate_delta": 0.05 * (block + 1) ** 2 + better_by,
        "swap_delta": 0.2 / (1 + block[:-1]) + better_by,
        "pruning_delta": 0.01 * (np.exp(block) - 1) + better_by,
    }
    arrays: dict[str, npt.NDArray[np.float64]] = {}
    for key, delta in series.items():
        arrays |= {key: delta, f"{key}_low": 0.9 * delta - 0.005, f"{key}_high": 1.1 * delta + 0.005}
    removable = min(2, blocks - 1)
    return {
        "pruning_order": order[:blocks] if blocks > 1 else [0],
        "removable_blocks": removable,
        "share_of_depth_that_matters": 1 - removable / blocks,
        "whole_loss": 1.6 - better_by,
    }, arrays


def _smoothing(blocks: int, better_by: float) -> Found:
    stop, pair = np.arange(blocks + 1.0), np.arange(2.0 * blocks - 1)
    arrays = {
        "token_cosine": 0.05 + (0.6 - better_by) * stop / (blocks + 1),
        "effective_rank": 40 - 15 * stop / (blocks + 1) + better_by,
        "input_cosine": 0.5 + 0.4 * pair / (2 * blocks) - better_by,
    }
    return {"tokens_per_sequence": TOKENS // SEQUENCES}, arrays


def _lens(blocks: int, better_by: float) -> Found:
    stop = np.arange(blocks + 1.0)
    losses = 1.5 - better_by + 4 * np.exp(-6 * stop / blocks)
    target = losses[0] - 0.95 * (losses[0] - losses[-1])
    reached = int(np.argmax(losses <= target))
    return {
        "depth_at_95_percent": reached,
        "share_of_depth_at_95_percent": reached / blocks,
        "final_loss": float(losses[-1]),
    }, {
        "loss_after_block": losses,
        "loss_after_block_low": losses - 0.03,
        "loss_after_block_high": losses + 0.03,
    }
