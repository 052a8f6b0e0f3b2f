"""Documents as in sweep.json, with losses written down by hand: nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Loss = float | str | None
# by (heads/L_b or None, d_model/L_b): loss of each arm, or one loss per seed; None: not trained yet; text: the status
# of one without a loss
Losses = Mapping[tuple[float | None, float], tuple[Loss | Sequence[Loss], ...]]


def sweep_document(losses: Losses, arms: tuple[str, ...] = ("plain", "mixing"), **changes: Any) -> dict[str, Any]:
    """A depth-width sweep whose cells are the keys of `losses`, each with plausible shapes and counts."""
    cells = [_cell(head_ratio, ratio, arms) for head_ratio, ratio in losses]
    by_cell = {cell["key"]: of_arms for cell, of_arms in zip(cells, losses.values(), strict=True)}
    return _document(
        by_cell,
        cells,
        arms,
        kind="depth-width",
        request={"match": "parameters", "preset": "tiny", "budget": {"kind": "preset", "value": None}},
        facts={
            "reference": {
                "shape": _shape(8, 64),
                "counts": {
                    "parameters": 420_000,
                    "non_embedding_parameters": 400_000,
                    "training_flops_per_token": 2.9e6,
                },
                "learning_rate": 4e-3,
            },
            "learning_rate_rule": "Peak learning rate = 0.004 × (d_model / 64)^-0.5, the same for every scheme.",
        },
        **changes,
    )


def arms_document(
    losses: Mapping[str, Loss | Sequence[Loss]], *, kind: str = "residuals", report: str = "arms", **changes: Any
) -> dict[str, Any]:
    """A sweep of one cell: arm label → its loss, or one per seed."""
    return grid_document({"": losses}, [{}], kind=kind, report=report, **changes)


def grid_document(
    losses: Mapping[str, Mapping[str, Loss | Sequence[Loss]]],
    coordinates: Sequence[Mapping[str, Any]],
    *,
    kind: str = "grid",
    report: str = "arms",
    **changes: Any,
) -> dict[str, Any]:
    """A sweep of several cells: cell key → arm label → losses; coordinates: of each cell."""
    arms = tuple(next(iter(losses.values())))
    cells = [
        {"key": key, "coordinates": dict(place), "facts": {"counts": _counts(arms)}}
        for key, place in zip(losses, coordinates, strict=True)
    ]
    by_cell = {key: tuple(of_arms[arm] for arm in arms) for key, of_arms in losses.items()}
    return _document(by_cell, cells, arms, kind=kind, **{"report": report, **changes})


def _document(
    losses: Mapping[str, tuple[Loss | Sequence[Loss], ...]],
    cells: list[dict[str, Any]],
    arms: tuple[str, ...],
    *,
    kind: str,
    **changes: Any,
) -> dict[str, Any]:
    runs = []
    num_seeds = 1
    for cell, of_arms in losses.items():
        for number, (arm, said) in enumerate(zip(arms, of_arms, strict=True)):
            by_seed = list(said) if isinstance(said, Sequence) and not isinstance(said, str) else [said]
            num_seeds = max(num_seeds, len(by_seed))
            runs += [_run(cell, arm, seed, loss, number) for seed, loss in enumerate(by_seed)]
    return {
        "schema": "attnres.sweep/2",
        "name": "fabricated",
        "kind": kind,
        "report": kind,
        "status": "finished",
        "created": "2026-11-30T01:00:00+00:00",
        "command": f"attnres sweep {kind}",
        "request": {},
        "preset": {"name": "tiny", "values": {}, "source_text": ""},
        "arms": [{"label": arm, "residual": {"scheme": arm}, "changes": {}, "facts": {}} for arm in arms],
        "seeds": list(range(num_seeds)),
        "planned_seeds": num_seeds,
        "vocab_size": 257,
        "budget": {"kind": "preset", "value": None},
        "tokens": 512_000,
        "tokens_per_step": 1024,
        "facts": {},
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


def _counts(arms: tuple[str, ...]) -> dict[str, dict[str, float]]:
    counts = {"parameters": 420_000, "non_embedding_parameters": 401_000}
    return {arm: {**counts, "training_flops_per_token": 3.0e6 * (1 + 0.02 * n)} for n, arm in enumerate(arms)}


def _cell(head_ratio: float | None, ratio: float, arms: tuple[str, ...]) -> dict[str, Any]:
    depth = max(1, round(64 / ratio))
    width = 4 * round(ratio * depth / 4)
    return {
        "key": f"r{ratio:g}" + ("" if head_ratio is None else f"-h{head_ratio:g}"),
        "coordinates": {"head_ratio": head_ratio, "ratio": ratio},
        "facts": {
            "counts": _counts(arms),
            "shape": _shape(depth, width),
            "realised_ratio": width / depth,
            "realised_head_ratio": 4 / depth,
            "learning_rate": 4e-3,
            "mismatch": {"non_embedding_parameters": 0.0025, "training_flops_per_token": 0.034},
        },
    }


def _run(cell: str, arm: str, seed: int, loss: Loss, number: int) -> dict[str, Any]:
    status = loss if isinstance(loss, str) else "planned" if loss is None else "finished"
    name = "-".join(part for part in (cell, arm, f"s{seed}") if part)
    return {
        "cell": cell, "arm": arm, "digest": f"{cell}/{arm}/{seed}", "seed": seed, "changes": {}, "cost": 60.0,
        "flops": 512_000 * 3.0e6 * (1 + 0.02 * number), "planned_tokens": 512_000, "after": None, "after_step": None,
        "folder": None if loss is None else name,
        "status": status, "step": 500 if status == "finished" else 0, "steps": 500, "tokens": 512_000,
        "loss": loss if isinstance(loss, float) else None, "perplexity": None, "bits_per_byte": None,
        "train_seconds": 60.0, "error": "its process was killed by SIGKILL" if status == "failed" else None,
    }  # fmt: skip
