"""The loss of a model with something taken out of it, sequence by sequence.

Nothing before the first altered site can differ from the whole model's walk, so every walk goes on from the states of
one that was taken for all of them. The numbers are those of a walk from the start, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from attnres_cli.probe.subject import Subject
from attnres_cli.residual.alteration import UNALTERED, Alteration
from attnres_cli.train.device import autocast


@torch.no_grad()
def altered_losses(
    subject: Subject, alterations: Iterable[Alteration], base: Alteration = UNALTERED
) -> dict[Alteration, Tensor]:
    """For each alteration the mean loss of each sequence in nats per counted target, [sequences] in float64 on the CPU.

    base: the alteration whose states the others go on from; the more it has in common with them, the less is computed.
    """
    common = subject.model.altered(base)
    end = len(common.sites())
    twins = {each: subject.model.altered(each) for each in dict.fromkeys(alterations)}
    # The site from which a walk is its own; one that is none, because nothing differs, has its end in common with base.
    firsts = {each: each.first_difference(base) for each in twins}
    losses: dict[Alteration, list[Tensor]] = {each: [] for each in twins}
    for tokens, targets in subject.batches:
        with autocast(subject.precision, tokens.device):
            states = common.states(tokens)
            for each, twin in twins.items():
                first = firsts[each]
                first = end if first is None else first
                losses[each] += subject.losses_of(twin.resume(states[first], first), targets)
    return {each: torch.stack(found).cpu() for each, found in losses.items()}
