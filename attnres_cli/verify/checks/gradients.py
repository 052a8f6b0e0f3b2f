"""A gradient reaches every parameter, but for those that the scheme declares dead, and none of those; and every
parameter of the scheme changes the output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from attnres_cli.verify.finding import Finding, judged, shown
from attnres_cli.verify.subjects import Subject, random_tokens

ORDER = 50
TITLE = "gradients"


def check(subjects: Sequence[Subject]) -> Iterator[Finding]:
    for subject in subjects:
        model = subject.model(stir=0.3)
        torch.autograd.backward(model.loss(*random_tokens(2, 12)))
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        without = {name for name, p in trained.items() if p.grad is None or not p.grad.any()}
        dead = model.dead_parameters()
        missed = sorted(without - dead.keys())
        yield judged(
            "every parameter gets one", not missed, subject=subject.name,
            detail=f"no gradient reaches {_some(missed)}",
        )  # fmt: skip
        alive = sorted(dead.keys() & trained.keys() - without)
        yield judged(
            "provably dead ones get none", not alive, subject=subject.name, detail=f"{_some(alive)} is declared dead"
        )
        for reason in dict.fromkeys(dead.values()):
            names = [name.removeprefix("residual.") for name, its in dead.items() if its == reason]
            yield shown("provably dead", len(names), subject=subject.name, detail=f"{_some(names)}: {reason}")


def _some(names: Sequence[str], most: int = 3) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
