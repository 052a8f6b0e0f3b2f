"""What passes from sublayer to sublayer is what the scheme declares, and weights survive being saved and loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from attnres_cli.verify.depth import recorded
from attnres_cli.verify.finding import Finding, judged, within
from attnres_cli.verify.subjects import Subject, random_tokens

ORDER = 80
TITLE = "state"


def check(subjects: Sequence[Subject]) -> Iterator[Finding]:
    for subject in subjects:
        model = subject.model(stir=0.7)
        tokens, _ = random_tokens(2, 12)
        states = recorded(model, tokens).states
        declared = [len(model.residual.state_spec(ordinal)) for ordinal in range(len(states))]
        lengths = [len(state) for state in states]
        wrong = next((site for site, pair in enumerate(zip(lengths, declared, strict=True), 1) if len({*pair}) > 1), 0)
        yield judged(
            "tensors as declared", not wrong, subject=subject.name,
            detail=f"before sublayer {wrong} there are {lengths[wrong - 1]} tensors, and {declared[wrong - 1]} are "
            "declared",
        )  # fmt: skip
        elements = sum(tensor.numel() for tensor in states[-1]) / tokens.numel()
        stated = model.residual.cost().live_elements_per_token
        yield judged(
            "elements per token as declared", elements == stated, subject=subject.name,
            detail=f"{elements:g} elements, and {stated:g} are declared",
        )  # fmt: skip
        other = subject.model(train__seed=9)
        other.load_state_dict(model.state_dict())
        with torch.no_grad():
            apart = float((model(tokens) - other(tokens)).abs().max())
        yield within(
            "logits after saving and loading", apart, 0.0, subject=subject.name,
            detail="something that counts is not in the state dict",
        )  # fmt: skip
