"""A token that changes changes nothing before it, and something from there on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from attnres_cli.verify.depth import deviation
from attnres_cli.verify.finding import Finding, judged, within
from attnres_cli.verify.subjects import VOCAB_SIZE, Subject, Unmoved, random_tokens

ORDER = 60
TITLE = "causality"

# Earlier tokens go through the same operations; only the shapes of matrix products are free to round otherwise.
AGREEMENT = 1e-12
CHANGED = (0, 5, 11)


@torch.no_grad()
def check(subjects: Sequence[Subject]) -> Iterator[Finding]:
    for subject in subjects:
        model = subject.model(stir=0.7)
        tokens, _ = random_tokens(2, 12)
        before = model.walk(tokens)
        largest, leaks = 0.0, -1
        acts = True
        for changed in CHANGED:
            other = tokens.clone()
            other[:, changed] = (other[:, changed] + 1) % VOCAB_SIZE
            for after in (model.walk(other), model.walk(other, Unmoved())):
                if changed:
                    apart = deviation(after[:, :changed], before[:, :changed])
                    if not apart <= largest:
                        largest, leaks = apart, changed
                acts &= bool((after[:, changed:] - before[:, changed:]).abs().amax(dim=-1).gt(0).all())
        yield within(
            "tokens before a changed one", largest, AGREEMENT, subject=subject.name,
            detail=f"a change of token {leaks} reaches earlier tokens",
        )  # fmt: skip
        yield judged(
            "the changed token and later ones do change", acts, subject=subject.name,
            detail="a token has no effect on itself or on a later one",
        )  # fmt: skip
