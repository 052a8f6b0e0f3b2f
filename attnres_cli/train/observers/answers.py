"""How many answers of a task are right, by the kind of question that the corpus tells apart (hops to follow)."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.train.device import autocast
from attnres_cli.train.observation import Observation, Probe


@torch.no_grad()
def observe(model: LanguageModel, probe: Probe) -> Observation | None:
    """A summary with one entry per kind of question, ascending: `kinds`, `answers` (how many of them the probe batch
    has), `accuracy` (share of them whose most likely token is the right one) and `loss` (mean nats).

    None for a corpus that does not tell questions apart.
    """
    if probe.answer_kinds is None:
        return None
    asked = probe.answer_kinds > 0
    kinds, right = probe.answer_kinds[asked], probe.targets[asked]
    with autocast(probe.precision, probe.tokens.device):
        logits = model(probe.tokens)[asked].float()
    losses = cross_entropy(logits, right, reduction="none").double()
    hits = logits.argmax(-1) == right
    summary: dict[str, list[float]] = {"kinds": [], "answers": [], "accuracy": [], "loss": []}
    for kind in sorted(set(kinds.tolist())):
        mine = kinds == kind
        summary["kinds"].append(kind)
        summary["answers"].append(int(mine.sum()))
        summary["accuracy"].append(float(hits[mine].double().mean()))
        summary["loss"].append(float(losses[mine].mean()))
    return Observation(summary=summary)
