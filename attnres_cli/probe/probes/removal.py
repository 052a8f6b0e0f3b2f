"""Layer removal: what the loss gains when transformer blocks are left out or change places, and how many can go.

*Removed* means that both sublayers are not computed and write nothing (`residual/alteration.py`). In a residual stream
that is the identity. Where sublayers choose among sources, the sources of the removed ones are not there, and every
later site chooses among the rest; sums of outputs lack their terms. *Swapped* blocks change places with all that
belongs to them. No weight is trained again.

    Δ = mean over sequences of (loss of the altered model - loss of the whole model), nats per token

Greedy pruning removes one block after the other: each time the one whose removal, with those that are gone already,
gives the lowest loss; of equals the first.

    removable blocks = the largest k for which the loss after k removals in that order is ≤ 1.01 × the whole model's
    share of depth that matters = 1 - removable blocks / L_b
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attnres_cli.probe.altered import altered_losses
from attnres_cli.probe.intervals import with_interval
from attnres_cli.probe.subject import Findings, Subject
from attnres_cli.residual.alteration import UNALTERED, Alteration

TITLE = "Layer removal"
# Of the whole model's loss: what a pruned model may lose and still count as good as whole.
TOLERANCE = 0.01


@torch.no_grad()
def measure(subject: Subject) -> Findings:
    """Arrays skip_delta [L_b] (that block removed), truncate_delta [L_b] (index k - 1: the last k removed), swap_delta
    [L_b - 1] (block i with block i + 1) and pruning_delta [L_b] (index k - 1: the first k of pruning_order removed),
    each with _low and _high: 95 %, Student's t over sequences. Summary: pruning_order, removable_blocks,
    share_of_depth_that_matters, whole_loss (nats per token)."""
    blocks = len(subject.model.sites()) // 2
    skips = [_without([block]) for block in range(blocks)]
    cuts = [_without(range(blocks - k, blocks)) for k in range(1, blocks + 1)]
    swaps = [Alteration(swapped=(block, block + 1)) for block in range(blocks - 1)]
    losses = altered_losses(subject, [UNALTERED, *skips, *cuts, *swaps])
    whole = losses[UNALTERED]
    order, pruned = _greedy(subject, [losses[each] for each in skips])
    curves = {
        "skip_delta": [losses[each] for each in skips],
        "truncate_delta": [losses[each] for each in cuts],
        "swap_delta": [losses[each] for each in swaps],
        "pruning_delta": pruned,
    }
    arrays: dict[str, npt.NDArray[np.float64]] = {}
    for name, of_places in curves.items():
        arrays |= with_interval(name, [each - whole for each in of_places])
    removable = removable_blocks(float(whole.mean()), [float(each.mean()) for each in pruned])
    summary = {
        "pruning_order": order,
        "removable_blocks": removable,
        "share_of_depth_that_matters": 1.0 - removable / blocks,
        "whole_loss": float(whole.mean()),
    }
    return Findings(summary, arrays)


def removable_blocks(whole: float, pruned: Sequence[float]) -> int:
    """The largest k with pruned[k - 1], the loss after k removals, at most 1 % above `whole`; 0: there is none."""
    return max((k for k, loss in enumerate(pruned, 1) if loss <= (1.0 + TOLERANCE) * whole), default=0)


def _greedy(subject: Subject, of_skips: Sequence[Tensor]) -> tuple[list[int], list[Tensor]]:
    """The order in which blocks go, and the losses of the sequences after each. of_skips: losses without one block."""
    candidates = dict(enumerate(of_skips))
    order: list[int] = []
    pruned: list[Tensor] = []
    while candidates:
        best = min(candidates, key=lambda block: float(candidates[block].mean()))
        order.append(best)
        pruned.append(candidates.pop(best))
        base, left = _without(order), {block: _without([*order, block]) for block in candidates}
        losses = altered_losses(subject, left.values(), base) if left else {}
        candidates = {block: losses[alteration] for block, alteration in left.items()}
    return order, pruned


def _without(blocks: Iterable[int]) -> Alteration:
    return Alteration(removed=frozenset(ordinal for block in blocks for ordinal in (2 * block, 2 * block + 1)))
