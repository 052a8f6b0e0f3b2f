"""What the model loses with its layers: one transformer block skipped, the last k cut, neighbours swapped, and the
cheapest removed one after the other."""

from __future__ import annotations

from dataclasses import replace

from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Axis, Lines, Picture
from attnres_cli.report.pictures._over_depth import BLOCKS
from attnres_cli.report.pictures._over_probes import Measure, build_measure, probed_runs
from attnres_cli.report.pictures._series import in_order, on_fitting_scale

ORDER = 70
DELTA = Axis("Δ loss", "nats per token")
SKIP = Measure(
    "skipped-blocks", "Loss without one transformer block", "removal", "skip_delta", BLOCKS, DELTA,
    "loss of the trained model without this transformer block, minus the whole model's; nothing is trained again",
    zero=True,
)  # fmt: skip
PRUNING = Measure(
    "pruning", "Loss as transformer blocks are removed", "removal", "pruning_delta",
    Axis("transformer blocks removed"), DELTA,
    "each time the block is removed whose removal costs least", first=1, zero=True,
)  # fmt: skip
TRUNCATION = Measure(
    "truncation", "Loss without the last transformer blocks", "removal", "truncate_delta",
    Axis("last transformer blocks cut"), DELTA, "loss without the last blocks, minus the whole model's", first=1,
    zero=True,
)  # fmt: skip
SWAP = Measure(
    "swapped-blocks", "Loss with two neighbouring transformer blocks swapped", "removal", "swap_delta",
    Axis("transformer block swapped with the next", "first: 0"), DELTA,
    "loss with the two swapped, minus the whole model's", zero=True,
)  # fmt: skip


def build(comparison: Comparison) -> list[Picture]:
    found = [each for measure in (SKIP, TRUNCATION, SWAP) for each in build_measure(comparison, measure)]
    pruned = [_with_share(comparison, each) for each in build_measure(comparison, PRUNING)]
    return [scaled for each in (*pruned, *found) for scaled in on_fitting_scale([each])]


def _with_share(comparison: Comparison, pruning: Lines) -> Lines:
    """Said too: how many blocks can go within 1 % of the loss."""
    words = []
    for arm in in_order(comparison):
        runs = probed_runs(arm, "removal")
        removable = [count for each in runs if (count := each.number("removable_blocks")) is not None]
        if removable and len(removable) == len(runs):
            words.append(f"{sum(removable) / len(removable):.3g} of {arm.title}")
    if not words:
        return pruning
    said = f"Removable within 1 % of the loss: {', '.join(words)}."
    return replace(pruning, alternative=f"{pruning.alternative} {said}", caption=f"{pruning.caption} {said}")
