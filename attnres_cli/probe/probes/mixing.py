"""The depth-mixing matrix M (§6.2): how much of each earlier output is in what a sublayer reads, whatever the scheme.

What sublayer l reads, before its norm, is h_l = Σ_i M_{i→l} v_i in most schemes, with v_0 the embedding and v_i the
output of sublayer i. The weights are found without knowing the scheme: with gates, depth weights and norms' scales held
(residual/holding.py), h_l is linear in the v_i, and M is its derivative. Whether the scheme is of that kind is checked
by two random vectors u: the gradient of uᵀ h_l with respect to v_i must be u times the same weights for both, and the
weights must put h_l together again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnres_cli.model.trunk import LanguageModel, TransformerBlock
from attnres_cli.probe.spectrum import effective_rank
from attnres_cli.probe.subject import Findings, Subject
from attnres_cli.residual.holding import gates_held
from attnres_cli.residual.protocol import Site, State, SublayerInput
from attnres_cli.train.device import autocast
from attnres_cli.train.observers.magnitudes import norm_inputs

TITLE = "Depth-mixing matrix"
NOTHING = "what a sublayer reads is no weighted sum of the outputs before it, so there is no matrix M"


def measure(subject: Subject) -> Findings | None:
    """Arrays matrix and token_deviation [L + 1, L + 1]: mean and standard deviation over tokens of M; row l is site l
    (L: the output), column 0 the embedding, column i the output of sublayer i - 1. Where a weight differs by channel it
    is the mean over channels. effective_rank: of the mean matrix, the absolute weights of each row adding up to one, as
    the norm that follows takes a row's size away. (The rank itself is always L + 1: M is triangular, and every
    site reads the newest output.)"""
    size = len(subject.model.sites()) + 1
    sums = torch.zeros(2, size, size, dtype=torch.float64)
    for tokens, _ in subject.batches:
        for ordinal, weights in enumerate(_weights_by_site(subject.model, tokens, subject.precision)):
            if weights is None:
                return None
            sums[0, ordinal, : ordinal + 1] += weights.sum(1).cpu()
            sums[1, ordinal, : ordinal + 1] += weights.square().sum(1).cpu()
    mean, square = sums / subject.tokens
    deviation = (square - mean.square()).clamp(min=0).sqrt()
    rows = mean / mean.abs().sum(1, keepdim=True)
    summary = {
        "effective_rank": float(effective_rank(rows)),
        "sources": ["embedding", *(f"{site.kind} {site.layer}" for site in subject.model.sites())],
    }
    return Findings(summary, {"matrix": mean.numpy(), "token_deviation": deviation.numpy()})


def _weights_by_site(model: LanguageModel, tokens: Tensor, precision: str) -> Iterator[Tensor | None]:
    """For every site l, M_{i→l} of tokens [B, T], [l + 1, B T] in float64; None for one that has no such weights."""
    reads = _Reads()
    with torch.enable_grad(), gates_held(), _cut(model) as written, norm_inputs(model, reads.norm_input):
        with autocast(precision, tokens.device):
            model.walk(tokens, reads)
        generator = torch.Generator().manual_seed(0)
        for ordinal in range(len(written)):
            yield _weights(reads.seen[ordinal], written[: ordinal + 1], generator)


def _weights(read: Tensor, sources: list[Tensor], generator: torch.Generator) -> Tensor | None:
    """[sources, B T] of `read` [B, T, d] as a weighted sum of the sources [B, T, d]; None where it is none."""
    found = [_derivative(read, sources, _signs(read, generator)) for _ in range(2)]
    tolerance = torch.finfo(read.dtype).eps ** 0.5
    scale = found[0].abs().max()
    if (found[0] - found[1]).abs().max() > tolerance * scale:
        return None
    together = sum(weight * source.detach() for weight, source in zip(found[0], sources, strict=True))
    if (together - read.detach()).abs().max() > tolerance * read.detach().abs().max():
        return None
    return found[0].double().mean(-1).flatten(1)


def _derivative(read: Tensor, sources: list[Tensor], signs: Tensor) -> Tensor:
    """The gradient of Σ signs ⊙ read with respect to each source, times the signs: [sources, B, T, d]."""
    if not read.requires_grad:
        return torch.zeros(len(sources), *read.shape, dtype=read.dtype, device=read.device)
    gradients = torch.autograd.grad(read, sources, signs, retain_graph=True, allow_unused=True)
    return torch.stack([torch.zeros_like(read) if each is None else each.to(read) * signs for each in gradients])


def _signs(like: Tensor, generator: torch.Generator) -> Tensor:
    """Random +1 and -1: dividing by them is exact."""
    return (2.0 * torch.randint(0, 2, like.shape, generator=generator) - 1.0).to(like)


class _Reads:
    """What each site reads: what its norm is given, or where the scheme never calls that, what the sublayer is handed;
    where attention is given several inputs, the query's."""

    def __init__(self) -> None:
        self.seen: dict[int, Tensor] = {}

    def norm_input(self, ordinal: int, x: Tensor) -> None:
        self.seen.setdefault(ordinal, x)

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None:
        self.seen.setdefault(site.ordinal, x if isinstance(x, Tensor) else x["q"])

    def close(self, state: State, output: Tensor) -> None:
        pass


@contextmanager
def _cut(model: LanguageModel) -> Iterator[list[Tensor]]:
    """While the body runs, the embedding and the sublayers' outputs are leaves of the graph; they are collected in
    order."""
    written: list[Tensor] = []

    def leaf(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        written.append(output.detach().requires_grad_())
        return written[-1]

    blocks = [cast(TransformerBlock, block) for block in model.blocks]
    modules = [model.embedding, *(part for block in blocks for part in (block.attention, block.feed_forward))]
    handles = [module.register_forward_hook(leaf) for module in modules]
    try:
        yield written
    finally:
        for handle in handles:
            handle.remove()
