"""The logit lens: what the loss would be if the model were closed after each transformer block.

After block k the scheme closes the state as it is then (`Residual.close`: a last mixture, a sum of streams, …), the
final norm and the head follow. What was learned for the output of the whole model is so put on a shallower one. A
scheme whose output chooses among sources chooses among those that there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attnres_cli.probe.intervals import with_interval
from attnres_cli.probe.subject import Findings, Subject
from attnres_cli.residual.alteration import Alteration
from attnres_cli.train.device import autocast

TITLE = "Logit lens"
REACHED = 0.95


@torch.no_grad()
def measure(subject: Subject) -> Findings:
    """Array loss_after_block [L_b + 1] in nats per token (0: the embedding alone; L_b: the whole model), with the
    interval of its difference from the final loss, sequence by sequence, put on the final loss."""
    model = subject.model
    sites = range(len(model.sites()))
    # The scheme as it is without the blocks that are still to come, so that it closes with the sources there are.
    closing = [model.residual.altered(Alteration(removed=frozenset(sites[end:]))) for end in (*sites[::2], len(sites))]
    losses: list[list[Tensor]] = [[] for _ in closing]
    for tokens, targets in subject.batches:
        with autocast(subject.precision, tokens.device):
            states = model.states(tokens)[::2]
            for kept, scheme, state in zip(losses, closing, states, strict=True):
                kept += subject.losses_of(scheme.close(state, model.final_norm), targets)
    by_block = [torch.stack(each).cpu() for each in losses]
    final = by_block[-1].mean().numpy()
    arrays = with_interval("loss_after_block", [each - by_block[-1] for each in by_block])
    after_block = [float(each.mean()) for each in by_block]
    return Findings(reached(after_block), {name: array + final for name, array in arrays.items()})


def reached(losses: Sequence[float]) -> dict[str, Any]:
    """depth_at_95_percent: the fewest blocks from which on the loss stays at or below
    first - 0.95 (first - final), first being the embedding's alone; None where depth did not lower the loss."""
    first, final = losses[0], losses[-1]
    blocks = len(losses) - 1
    depth: int | None = None
    if final < first:
        bound = first - REACHED * (first - final)
        depth = next(k for k in range(blocks + 1) if all(loss <= bound for loss in losses[k:]))
    share = None if depth is None else depth / blocks
    return {"depth_at_95_percent": depth, "share_of_depth_at_95_percent": share, "final_loss": final}
