"""A small trained-looking model as a probe's subject, and its losses computed the obvious way, one walk at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from scipy import stats
from torch import Tensor

from attnres_cli.model.cross_entropy import IGNORED_TARGET
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.probe.subject import Subject
from tests.residual.trunk_pieces import Pieces, rms_norm, stirred
from tests.small import tokens_and_targets

# What the head sees, from the parts of a model.
WalkOfPieces = Callable[[Pieces], Tensor]


def subject_of(residual: dict[str, Any], **changes: Any) -> Subject:
    """Two batches of 3 and 2 sequences with a target left out here and there, and one sequence without any."""
    model, _, _ = stirred(residual, **changes)
    batches = [tokens_and_targets(count, 9, seed) for count, seed in ((3, 5), (2, 6))]
    batches[0][1][1, 2:5] = IGNORED_TARGET
    batches[1][1][0] = IGNORED_TARGET
    return Subject(model.eval(), tuple(batches), "fp32")


@torch.no_grad()
def losses_by_hand(subject: Subject, walk: WalkOfPieces) -> list[float]:
    """- log softmax of every counted target, one after the other; a sequence's mean."""
    found = []
    for tokens, targets in subject.batches:
        logits = walk(Pieces(subject.model, tokens)) @ subject.model.head_weight.T
        for sequence in range(len(tokens)):
            nats = []
            for position in range(tokens.shape[1]):
                target = int(targets[sequence, position])
                if target != IGNORED_TARGET:
                    row = [float(x) for x in logits[sequence, position]]
                    nats.append(math.log(sum(math.exp(x) for x in row)) - row[target])
            if nats:
                found.append(sum(nats) / len(nats))
    return found


def plain(ordinals: Sequence[int]) -> WalkOfPieces:
    """h ← h + f(Norm(h)) through these sublayers."""

    def walk(at: Pieces) -> Tensor:
        h = at.embedding
        for ordinal in ordinals:
            h = h + at.f[ordinal](at.norm[ordinal](h))
        return at.final_norm(h)

    return walk


def over_sources(
    model: LanguageModel, ordinals: Sequence[int], hidden: Callable[[int, int], bool] = lambda site, source: False
) -> WalkOfPieces:
    """Eq. 1–4 through these sublayers. hidden(site, source): sublayer `source` (-1: the embedding) is hidden from this
    site (8: the output), unless everything is."""
    own = dict(model.residual.named_parameters())

    def mixed(at: Pieces, sources: list[tuple[int, Tensor]], site: int) -> Tensor:
        kept = [value for source, value in sources if not hidden(site, source)] or [value for _, value in sources]
        place = "output" if site == 8 else f"sites.{site}"
        query, gain = own[f"{place}.query"], own[f"{place}.key_gain"]
        logits = torch.stack([(rms_norm(value, gain, at.epsilon) * query).sum(-1) for value in kept])
        exponentials = logits.exp()
        return (exponentials / exponentials.sum(0)).unsqueeze(-1).mul(torch.stack(kept)).sum(0)

    def walk(at: Pieces) -> Tensor:
        sources = [(-1, at.embedding)]
        for ordinal in ordinals:
            sources.append((ordinal, at.f[ordinal](at.norm[ordinal](mixed(at, sources, ordinal)))))
        return at.final_norm(mixed(at, sources, 8))

    return walk


def interval_by_hand(altered: Sequence[float], whole: Sequence[float]) -> tuple[float, float, float]:
    """Mean of the differences, and its 95 % t interval."""
    differences = [one - other for one, other in zip(altered, whole, strict=True)]
    mean = sum(differences) / len(differences)
    error = stats.sem(differences)
    low, high = stats.t.interval(0.95, len(differences) - 1, loc=mean, scale=error)
    return mean, float(low), float(high)
