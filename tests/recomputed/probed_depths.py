"""Oracles of `attnres probe`: what depth is worth, and what it does to the states of tokens, by docs/probe.md."""

from __future__ import annotations

from functools import partial

from tests.recomputed.harness import Oracle, Rows
from tests.recomputed.probed_runs import Runs, side_by_side


def removal(runs: Runs) -> Rows:
    """Removable: the most blocks k with a loss of at most 1.01 × the whole model's after the first k removals."""
    rows = []
    for each in runs:
        whole = (each.summary("removal") or {})["whole_loss"]
        deltas = each.array("removal", "pruning_delta")
        within = [k for k, delta in enumerate(deltas, start=1) if whole + delta <= 1.01 * whole]
        k = max(within, default=0)
        rows.append(
            {
                "run": each.label,
                "whole_loss": whole,
                "removable_blocks": k,
                "share_of_depth_that_matters": 1 - k / each.blocks,
            }
        )
    return rows


def smoothing(runs: Runs) -> Rows:
    rows = []
    for each in runs:
        cosine, rank = (each.array("smoothing", name) for name in ("token_cosine", "effective_rank"))
        rows.append(
            {
                "run": each.label,
                "first_cosine": float(cosine[0]),
                "last_cosine": float(cosine[-1]),
                "first_rank": float(rank[0]),
                "last_rank": float(rank[-1]),
                "input_cosine": float(each.array("smoothing", "input_cosine").mean()),
            }
        )
    return rows


def lens(runs: Runs) -> Rows:
    """95 %: the fewest blocks from which on the loss stays at or below loss_0 - 0.95 (loss_0 - loss_end)."""
    rows = []
    for each in runs:
        losses = each.array("lens", "loss_after_block")
        limit = losses[0] - 0.95 * (losses[0] - losses[-1])
        # The last one is below the limit, whatever rounding says of it.
        staying = [b for b in range(len(losses) - 1) if (losses[b:-1] <= limit).all()]
        reached = min(staying, default=each.blocks) if losses[-1] < losses[0] else None
        rows.append(
            {
                "run": each.label,
                "final_loss": float(losses[-1]),
                "depth_at_95_percent": reached,
                "share_of_depth_at_95_percent": None if reached is None else reached / each.blocks,
            }
        )
    return rows


ORACLES: dict[str, Oracle] = {
    "removal": removal,
    "skipped": partial(side_by_side, "removal", "skip_delta", "block"),
    "truncated": partial(side_by_side, "removal", "truncate_delta", "cut", first=1),
    "swapped": partial(side_by_side, "removal", "swap_delta", "block"),
    "pruned": partial(side_by_side, "removal", "pruning_delta", "pruned", first=1),
    "smoothing": smoothing,
    "token_cosine": partial(side_by_side, "smoothing", "token_cosine", "blocks_passed"),
    "state_rank": partial(side_by_side, "smoothing", "effective_rank", "blocks_passed"),
    "lens": lens,
    "lens_by_depth": partial(side_by_side, "lens", "loss_after_block", "blocks_passed"),
}
BUILT_IN = {
    **dict.fromkeys(("removal", "skipped", "truncated", "swapped", "pruned"), "report/probes/removal.py"),
    **dict.fromkeys(("smoothing", "token_cosine", "state_rank"), "report/probes/smoothing.py"),
    **dict.fromkeys(("lens", "lens_by_depth"), "report/probes/lens.py"),
}
