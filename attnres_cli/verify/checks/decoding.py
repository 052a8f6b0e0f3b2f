"""Tokens read in parts through a cache give the logits of reading them at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from attnres_cli.model.cache import KeyValueCache
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.verify.depth import deviation
from attnres_cli.verify.finding import Finding, within
from attnres_cli.verify.subjects import Subject, random_tokens

ORDER = 70
TITLE = "cached decoding"

# Attention over a cache sums the same products in another order.
AGREEMENT = 1e-11
LENGTH = 12
PARTS = {"token by token": [1] * LENGTH, "a prompt, then the rest": [7, 1, 4]}


@torch.no_grad()
def check(subjects: Sequence[Subject]) -> Iterator[Finding]:
    for subject in subjects:
        model = subject.model(stir=0.7)
        tokens, _ = random_tokens(2, LENGTH)
        whole = model(tokens)
        for name, parts in PARTS.items():
            yield within(
                name, deviation(in_parts(model, tokens, parts), whole), AGREEMENT, subject=subject.name,
                detail="something of the residual path passes from token to token outside the cache, or is lost",
            )  # fmt: skip


def in_parts(model: LanguageModel, tokens: Tensor, parts: list[int]) -> Tensor:
    """Logits [B, T, vocabulary] of tokens that are read part by part into one cache."""
    cache = KeyValueCache.for_model(model, len(tokens), tokens.shape[1])
    return torch.cat([model(part, cache) for part in torch.split(tokens, parts, dim=1)], dim=1)
