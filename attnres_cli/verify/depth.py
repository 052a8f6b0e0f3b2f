"""What the checks ask of a scheme with softmax over depth, by the names of the residual protocol."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.arms import default_arms
from attnres_cli.residual.depth_attention import DepthAttention
from attnres_cli.residual.protocol import Site, State, SublayerInput
from attnres_cli.verify.equations import block_sizes
from attnres_cli.verify.subjects import Subject


def why_not_plain(subject: Subject) -> str | None:
    """Why the paper's equations say nothing about this scheme, or None. Which schemes are the paper's is data
    (residual/arms.toml); their descendants are depth attention, too, but with other sources or steps."""
    residual = subject.residual
    if not isinstance(residual, DepthAttention):
        return "not a softmax over depth"
    if subject.preset.residual.scheme not in default_arms("verify"):
        return "a descendant of the paper's schemes, with sources or steps of its own"
    if not residual.plain:
        return "its options change the mathematics of Eq. 1-6"
    return None


def sizes_of(subject: Subject) -> list[int]:
    """Sublayers in each block by the paper's rule, from what the configuration says; Full: ones.

    Only where neither N nor S is configured is the scheme itself asked for N.
    """
    residual, config = subject.residual, subject.preset.residual
    blocks = getattr(config, "num_blocks", None)
    return block_sizes(
        residual.geometry.num_sublayers,
        residual.num_blocks() if blocks is None else blocks,
        getattr(config, "block_sublayers", None),
    )


class Recorded:
    """A watcher that keeps what every sublayer saw and gave, and every state; `state` is the one before `close`."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.states: list[State] = []
        self.closed: Tensor | None = None

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None:
        self.seen.append(x if isinstance(x, Tensor) else next(iter(x.values())))
        self.outputs.append(output)
        self.states.append(before)

    def close(self, state: State, output: Tensor) -> None:
        self.states.append(state)
        self.closed = output


@torch.no_grad()
def recorded(model: LanguageModel, tokens: Tensor) -> Recorded:
    """The model's walk, taken step by step."""
    watcher = Recorded()
    model.walk(tokens, watcher)
    return watcher


def sources_of(model: LanguageModel, state: State, ordinal: int) -> tuple[list[Tensor], Tensor]:
    """(the sources [B, T, d] that the site mixes, its weights [sources, B, T])."""
    residual = cast(DepthAttention, model.residual)
    mixed = residual.depth_weights(state, ordinal)
    assert mixed is not None, "plain depth attention weighs its sources at every site"
    names, weights = mixed
    held = dict(zip(residual.state_spec(ordinal), state, strict=True))
    return [held[name] for name in names], weights


def queries_and_gains(model: LanguageModel) -> tuple[list[list[float]], list[list[float] | None]]:
    """The query and the key gain of every site, the output site's last, as numbers, by their names in the state
    dict."""
    values = model.residual.state_dict()
    places = [*(f"sites.{ordinal}" for ordinal in range(len(model.sites()))), "output"]
    gains = [values.get(f"{place}.key_gain") for place in places]
    return [values[f"{place}.query"].tolist() for place in places], [None if g is None else g.tolist() for g in gains]


@torch.no_grad()
def deviation(found: Tensor, expected: Tensor) -> float:
    """The largest difference, in units of the largest expected value."""
    size = max(float(expected.abs().max()), torch.finfo(expected.dtype).tiny)
    return float((found.to(expected.dtype) - expected).abs().max()) / size
