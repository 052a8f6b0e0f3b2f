"""The trunk's loop once more, by hand and one step at a time, for what probes are held against.

It calls the scheme's five steps itself and sees what every norm is given through a norm of its own: no hook, no
watcher, none of the code that the probes use.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.probe.subject import Subject
from tests.small import EVERY, small_model, tokens_and_targets

# The baseline, the paper's two schemes, and one of each kind: gates, streams, averages, roles, post-norm, odd ones.
SCHEMES = (
    "prenorm",
    "3 blocks",
    "full",
    "highway",
    "hyper-connections",
    "denseformer",
    "muddformer",
    "postnorm",
    "unet",
    "hybridnorm",
)


def subject(name: str, *, sequences: int = 3, stir: float = 0.3) -> Subject:
    """A small model of this configuration in float64, and `sequences` sequences in batches of two."""
    model = small_model(EVERY[name], dtype=torch.float64, stir=stir).eval()
    tokens, targets = tokens_and_targets(sequences)
    batches = tuple((tokens[first : first + 2], targets[first : first + 2]) for first in range(0, sequences, 2))
    return Subject(model, batches, "fp32")


def all_tokens(subject: Subject) -> tuple[Tensor, Tensor]:
    tokens, targets = zip(*subject.batches, strict=True)
    return torch.cat(tokens), torch.cat(targets)


@dataclasses.dataclass
class Walked:
    """inputs: what each sublayer's norm was given last, or what the sublayer was handed where it has none. states:
    before each `write`. streams: after each transformer block, and of the embedding first. closing: before `close`."""

    embedding: Tensor
    inputs: list[Tensor]
    outputs: list[Tensor]
    before: list[Tensor]
    streams: list[Tensor]
    states: list[tuple[Tensor, ...]]
    closing: tuple[Tensor, ...]
    closed: Tensor


class _Seen:
    """A norm that remembers what it was given."""

    def __init__(self, norm: Any) -> None:
        self.norm, self.gain, self.epsilon = norm, norm.gain, norm.epsilon
        self.given: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.given.append(x)
        result: Tensor = self.norm(x)
        return result


def sublayers(model: LanguageModel) -> Iterator[Any]:
    for block in model.blocks:
        yield block.attention
        yield block.feed_forward


def walk(model: LanguageModel, tokens: Tensor) -> Walked:
    residual = model.residual
    embedding = model.embedding(tokens)
    state = residual.open(embedding)
    seen = Walked(embedding, [], [], [], [], [], (), embedding)
    for site, sublayer in zip(model.sites(), sublayers(model), strict=True):
        norm = _Seen(site.norm)
        watched = dataclasses.replace(site, norm=norm)
        x, state = residual.read(state, watched)
        if site.kind == "attention":
            kept = [state]

            def project(q: Tensor, k: Tensor, v: Tensor, site: Any = site, kept: list[Any] = kept) -> Any:
                q, k, v, kept[0] = residual.project(kept[0], site, q, k, v)
                return q, k, v

            y = sublayer(x, project)
            state = kept[0]
        else:
            y = sublayer(x)
        handed = x["q"] if isinstance(x, Mapping) else x
        seen.inputs.append(norm.given[-1] if norm.given else handed)
        seen.outputs.append(y)
        seen.before.append(residual.stream(state))
        seen.states.append(state)
        if site.ordinal == 0:
            seen.streams.append(residual.stream(state))
        state = residual.write(state, site, y)
        if site.kind == "feed_forward":
            seen.streams.append(residual.stream(state))
    seen.closing, seen.closed = state, residual.close(state, model.final_norm)
    return seen


def vectors(x: Tensor) -> list[list[float]]:
    """[..., d] as one list of numbers per token."""
    return [[float(value) for value in row] for row in x.detach().reshape(-1, x.shape[-1])]


def losses(model: LanguageModel, closed: Tensor, targets: Tensor) -> list[float]:
    """Mean loss of each sequence, one token at a time."""
    found = []
    for states, wanted in zip(closed, targets, strict=True):
        terms = []
        for state, target in zip(states, wanted, strict=True):
            logits = [float(row @ state) for row in model.head_weight]
            largest = max(logits)
            terms.append(largest + math.log(sum(math.exp(each - largest) for each in logits)) - logits[int(target)])
        found.append(sum(terms) / len(terms))
    return found
