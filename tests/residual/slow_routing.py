"""Attention over depth with every knob, written again the obvious way. Shares no code with what it tests.

Sources are plain lists; weights are formed for every head and source apart, from sums over channels that are written
out; sparsemax finds its threshold by bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tests.residual.trunk_pieces import Pieces, rms_norm


@dataclass
class Knobs:
    """The keys of [residual] with the paper's defaults."""

    query: str = "static"
    key_norm: bool = True
    logit_scale: str = "none"
    temperature: float = 1.0
    normaliser: str = "softmax"
    depth_heads: int = 1
    key_rank: int | None = None
    key_projection: str = "projected"
    window: int | None = None
    embedding_source: bool = True
    final_mix: bool = True
    others: dict[str, Any] = field(default_factory=dict)


def sparsemax(logits: list[Tensor]) -> list[Tensor]:
    low = torch.stack(logits).amin(0) - 1.0
    high = torch.stack(logits).amax(0)
    for _ in range(200):
        middle = (low + high) / 2
        too_much = sum(torch.clamp(s - middle, min=0) for s in logits) > 1
        low, high = torch.where(too_much, middle, low), torch.where(too_much, high, middle)
    return [torch.clamp(s - (low + high) / 2, min=0) for s in logits]


def normalise(logits: list[Tensor], how: str) -> list[Tensor]:
    if how == "raw":
        return logits
    if how == "sparsemax":
        return sparsemax(logits)
    if how in ("sigmoid", "normalised-sigmoid"):
        gates = [1 / (1 + torch.exp(-s)) for s in logits]
        return gates if how == "sigmoid" else [gate / sum(gates) for gate in gates]
    exponentials = [torch.exp(s) for s in logits]
    total = sum(exponentials) + (1.0 if how == "softmax-1" else 0.0)
    return [e / total for e in exponentials]


class Mixer:
    """One site's mixture of its sources."""

    def __init__(self, knobs: Knobs, parameters: dict[str, Tensor], epsilon: float) -> None:
        self.knobs, self.own, self.epsilon = knobs, parameters, epsilon

    def __call__(self, sources: Sequence[Tensor], site: str) -> Tensor:
        return self.weighted(sources, self.weights(sources, site))

    def weighted(self, sources: Sequence[Tensor], weights: list[list[Tensor]]) -> Tensor:
        """weights[head][source], each [B, T]."""
        size = sources[0].shape[-1] // len(weights)
        slices = [
            sum(w[..., None] * v[..., head * size : (head + 1) * size] for w, v in zip(of_head, sources, strict=True))
            for head, of_head in enumerate(weights)
        ]
        return torch.cat([torch.as_tensor(each) for each in slices], -1)

    def weights(self, sources: Sequence[Tensor], site: str) -> list[list[Tensor]]:
        heads = self.knobs.depth_heads
        if self.knobs.query == "scalars":
            table = self.own[f"{site}.logits"]
            shape = sources[0].shape[:-1]
            rows = [[table[head, i].expand(shape) for i in range(len(sources))] for head in range(heads)]
        else:
            rows = [self.logits(sources, site, head) for head in range(heads)]
        return [normalise(row, self.knobs.normaliser) for row in rows]

    def logits(self, sources: Sequence[Tensor], site: str, head: int) -> list[Tensor]:
        knobs = self.knobs
        query = self.query(sources, site)
        size = query.shape[-1] // knobs.depth_heads
        part = slice(head * size, (head + 1) * size)
        factor = (size**-0.5 if knobs.logit_scale == "1/sqrt(d)" else 1.0) / knobs.temperature
        return [factor * (query[..., part] * self.key(v, site)[..., part]).sum(-1) for v in sources]

    def query(self, sources: Sequence[Tensor], site: str) -> Tensor:
        if self.knobs.query == "static":
            return self.own[f"{site}.query"]
        newest = rms_norm(sources[-1], None, self.epsilon)
        matrix = self.own[f"{site}.query_matrix"]
        return torch.stack([(newest * row).sum(-1) for row in matrix], -1)

    def key(self, source: Tensor, site: str) -> Tensor:
        key = source
        if self.knobs.key_rank is not None:
            if self.knobs.key_projection == "sliced":
                key = source[..., source.shape[-1] - self.knobs.key_rank :]
            else:
                key = torch.stack([(source * row).sum(-1) for row in self.own["keys_of.projection"]], -1)
        if not self.knobs.key_norm:
            return key
        return rms_norm(key, self.own.get(f"{site}.key_gain"), self.epsilon)


def site_name(ordinal: int, sublayers: int) -> str:
    return "output" if ordinal == sublayers else f"sites.{ordinal}"


def walk(at: Pieces, mixer: Mixer, sizes: Sequence[int]) -> Tensor:
    """What the head sees, of blocks of `sizes` sublayers."""
    knobs, sublayers = mixer.knobs, len(at.f)
    firsts = [sum(sizes[:n]) for n in range(len(sizes))]
    sources: list[Tensor] = []
    embedding: list[Tensor] = [at.embedding]
    everything = at.embedding
    for ordinal in range(sublayers):
        seen = [*embedding, *sources]
        y = at.f[ordinal](at.norm[ordinal](mixer(seen, site_name(ordinal, sublayers))))
        everything = everything + y
        if ordinal == 0 and not knobs.embedding_source:
            sources, embedding = [at.embedding + y], []
        elif ordinal in firsts:
            sources = [*sources, y]
        else:
            sources = [*sources[:-1], sources[-1] + y]
        if knobs.window is not None:
            sources = sources[-knobs.window :]
    if not knobs.final_mix:
        return at.final_norm(everything)
    return at.final_norm(mixer([*embedding, *sources], "output"))


Walk = Callable[[Pieces, Mixer, Sequence[int]], Tensor]
