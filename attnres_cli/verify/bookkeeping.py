"""Ways of walking through depth: the paper's (Eq. 1 and 5-6), and the known wrong ones, each as one change of it.

All of them mix with the module's own `mix`, so that only the bookkeeping of sources differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, combinations

import torch
from torch import Tensor

Mix = Callable[[Sequence[Tensor], int], Tensor]

EMBEDDING, EDGES, RESET = "the embedding is one source", "blocks end where they should", "block sums start anew"
SUMS, PARTIAL, OUTPUT = "blocks are sums", "the running sum is a source", "the output site mixes all sources"
EMPTY, FLOW = "no source is empty", "gradient through the block sums"


@dataclass(frozen=True)
class Walk:
    """The defaults are the paper's. later: sublayers by which every block's end is shifted; first_too: the begin of the
    first block as well, so that what lies before it is a block, too."""

    embedding: str = "once"
    later: int = 0
    first_too: bool = False
    resets: bool = True
    means: bool = False
    partial: bool = True
    empty: bool = False
    output: str = "mix"

    def run(
        self, mix: Mix, embedding: Tensor, sublayers: Sequence[Callable[[Tensor], Tensor]], sizes: Sequence[int]
    ) -> Tensor:
        """What the final norm gets."""
        begins = [0, *accumulate(sizes)][:-1]
        firsts = {0, *(begin + self.later for begin in begins[0 if self.first_too else 1 :])}
        finished = [embedding] * {"in the first block": 0, "two sources": 2}.get(self.embedding, 1)
        partial = embedding if self.embedding in ("in the first block", "twice") else None
        count = 0
        for ordinal, sublayer in enumerate(sublayers):
            if ordinal in firsts and ordinal > 0:
                assert partial is not None
                finished.append(self._kept(partial, count))
                partial, count = (None, 0) if self.resets else (partial, count)
            inner = partial if self.resets or ordinal not in firsts or not finished else None
            sources = self._sources(finished, inner)
            output = sublayer(mix(sources, ordinal))
            partial = output if partial is None else partial + output
            count += 1
        assert partial is not None
        return self._closed(mix, [*finished, self._kept(partial, count)], len(sublayers))

    def _kept(self, partial: Tensor, count: int) -> Tensor:
        return partial / max(count, 1) if self.means else partial

    def _sources(self, finished: list[Tensor], partial: Tensor | None) -> list[Tensor]:
        if partial is None:
            empty = [torch.zeros_like(finished[0])] if self.empty else []
            return [*finished, *empty]
        return [*finished, partial] if self.partial or not finished else finished

    def _closed(self, mix: Mix, sources: list[Tensor], ordinal: int) -> Tensor:
        if self.output == "last":
            return sources[-1]
        if self.output == "sum":
            return torch.stack(sources).sum(0)
        if self.output == "mean":
            return torch.stack(sources).mean(0)
        return mix((sources[1:] if self.output == "mix without embedding" else []) or sources, ordinal)


@dataclass(frozen=True)
class WalkFault:
    """As `recipes.Fault`, of a `Walk`."""

    breaks: str
    told: str
    walk: Walk


FAULTS = (
    WalkFault(EMBEDDING, "the embedding is a source twice", Walk(embedding="two sources")),
    WalkFault(EMBEDDING, "the embedding is a source and begins the first sum, too", Walk(embedding="twice")),
    WalkFault(
        EMBEDDING, "the embedding is no source but the start of the first sum", Walk(embedding="in the first block")
    ),
    WalkFault(EDGES, "blocks begin one sublayer late", Walk(later=1)),
    WalkFault(EDGES, "blocks begin one sublayer late, after a first block of one", Walk(later=1, first_too=True)),
    WalkFault(EDGES, "blocks begin one sublayer early: sublayers are counted from 1 instead of 0", Walk(later=-1)),
    WalkFault(RESET, "the accumulator is never reset: sources are running streams", Walk(resets=False)),
    WalkFault(SUMS, "finished blocks are means of their outputs", Walk(means=True)),
    WalkFault(PARTIAL, "sublayers do not see what their own block has summed up so far", Walk(partial=False)),
    WalkFault(EMPTY, "the first sublayer of a block mixes a source of zeros, too", Walk(empty=True)),
    WalkFault(OUTPUT, "the newest source alone goes to the final norm: no mix at the output", Walk(output="last")),
    WalkFault(OUTPUT, "the sum of all sources goes to the final norm: no mix at the output", Walk(output="sum")),
    WalkFault(OUTPUT, "the mean of all sources goes to the final norm: no mix at the output", Walk(output="mean")),
    WalkFault(OUTPUT, "the output site leaves out the embedding", Walk(output="mix without embedding")),
)


def walks() -> list[tuple[tuple[WalkFault, ...], Walk]]:
    """The paper's walk, every fault alone, and every two that break different properties."""
    pairs = [pair for pair in combinations(FAULTS, 2) if pair[0].breaks != pair[1].breaks]
    return [((), Walk()), *(((fault,), fault.walk) for fault in FAULTS), *((pair, _both(*pair)) for pair in pairs)]


def _both(one: WalkFault, other: WalkFault) -> Walk:
    plain = Walk()
    changed = {name: value for name, value in vars(other.walk).items() if value != getattr(plain, name)}
    return replace(one.walk, **changed)
