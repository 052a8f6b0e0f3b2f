"""Documents as in sweep.json, with losses written down by hand: nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# by (heads/L_b or None, d_model/L_b): loss of each arm; None: not trained yet; text: the status of one without a loss
Losses = Mapping[tuple[float | None, float], tuple[float | str | None, ...]]


def sweep_document(losses: Losses, arms: tuple[str, ...] = ("plain", "mixing"), **changes: Any) -> dict[str, Any]:
    """A sweep whose cells are the keys of `losses`, each with plausible shapes and counts."""
    cells = [_cell(head_ratio, ratio, arms) for head_ratio, ratio in losses]
    runs = [
        _run(cell["key"], arm, loss)
        for cell, of_arms in zip(cells, losses.values(), strict=True)
        for arm, loss in zip(arms, of_arms, strict=True)
    ]
    return {
        "schema": "attnres.sweep/1",
        "name": "fabricated",
        "kind": "depth-width",
        "status": "finished",
        "created": "2026-11-30T01:00:00+00:00",
        "command": "attnres sweep depth-width",
        "request": {"match": "parameters", "preset": "tiny", "budget": {"kind": "preset", "value": None}},
        "preset": {"name": "tiny"},
        "arms": [{"label": arm, "residual": {"scheme": arm}} for arm in arms],
        "vocab_size": 257,
        "reference": {
            "shape": _shape(8, 64),
            "counts": {"parameters": 420_000, "non_embedding_parameters": 400_000, "training_flops_per_token": 2.9e6},
            "learning_rate": 4e-3,
        },
        "budget": {"kind": "preset", "value": None},
        "tokens": 512_000,
        "tokens_per_step": 1024,
        "learning_rate_rule": "Peak learning rate = 0.004 × (d_model / 64)^-0.5, the same for every scheme.",
        "cells": cells,
        "impossible": [],
        "process": {},
        "runs": runs,
        **changes,
    }


def _shape(depth: int, width: int) -> dict[str, int]:
    return {
        "transformer_blocks": depth, "d_model": width, "num_heads": 4, "num_kv_heads": 4, "head_dim": width // 4,
        "d_ff": 3 * width,
    }  # fmt: skip


def _cell(head_ratio: float | None, ratio: float, arms: tuple[str, ...]) -> dict[str, Any]:
    depth = max(1, round(64 / ratio))
    width = 4 * round(ratio * depth / 4)
    counts = {"parameters": 420_000, "non_embedding_parameters": 401_000, "training_flops_per_token": 3.0e6}
    return {
        "key": f"r{ratio:g}" + ("" if head_ratio is None else f"-h{head_ratio:g}"),
        "ratio": ratio,
        "head_ratio": head_ratio,
        "realised_ratio": width / depth,
        "realised_head_ratio": 4 / depth,
        "shape": _shape(depth, width),
        "learning_rate": 4e-3,
        "muon_learning_rate": None,
        "counts": {arm: {**counts, "training_flops_per_token": 3.0e6 * (1 + 0.02 * n)} for n, arm in enumerate(arms)},
        "mismatch": {"non_embedding_parameters": 0.0025, "training_flops_per_token": 0.034},
    }


def _run(cell: str, arm: str, loss: float | str | None) -> dict[str, Any]:
    status = loss if isinstance(loss, str) else "planned" if loss is None else "finished"
    return {
        "cell": cell, "arm": arm, "digest": f"{cell}/{arm}", "folder": None if loss is None else f"{cell}-{arm}",
        "status": status, "step": 500 if status == "finished" else 0, "steps": 500, "tokens": 512_000,
        "loss": loss if isinstance(loss, float) else None, "perplexity": None, "bits_per_byte": None,
        "train_seconds": 60.0, "error": "its process was killed by SIGKILL" if status == "failed" else None,
    }  # fmt: skip
