"""From logits to the next token. Pure functions; what is drawn depends on the seed, the sample and the place alone.

The order is the usual one: temperature, then the k most probable tokens, then of these the fewest that hold the mass
p. Everything is float64 on the CPU, so that rounding does not decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attnres_cli.data.random_bits import random_uint64
from attnres_cli.errors import ExitCode, UserError


@dataclass(frozen=True)
class SamplingConfig:
    """temperature: logits are divided by it; 0 takes the most probable token always. top_k, top_p: see `probabilities`;
    None: every token. seed: names all random numbers; equal seeds give equal text.

    Raises UserError for values that mean nothing.
    """

    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _require(
            math.isfinite(self.temperature) and self.temperature >= 0, "--temperature", self.temperature, "0 or more"
        )
        _require(self.top_k is None or self.top_k >= 1, "--top-k", self.top_k, "1 or more")
        _require(self.top_p is None or 0 < self.top_p <= 1, "--top-p", self.top_p, "more than 0, at most 1")


def choose(logits: Tensor, sampling: SamplingConfig, *, sample: int, place: int) -> int:
    """The token that sample number `sample` has as its new token number `place`; logits [V]."""
    return int(pick(probabilities(logits, sampling), uniform(sampling.seed, sample, place)))


def probabilities(logits: Tensor, sampling: SamplingConfig) -> Tensor:
    """Logits [..., V] to the distribution to draw from, float64 [..., V].

    top_k keeps the k largest logits; top_p keeps of the rest the smallest set of most probable tokens whose mass is at
    least p. Among equals the lower id comes first.
    """
    logits = logits.double()
    shifted = logits - logits.amax(-1, keepdim=True)  # the largest is 0: no temperature makes it overflow
    if sampling.temperature == 0:
        return torch.nn.functional.one_hot(shifted.argmax(-1), logits.shape[-1]).double()
    distribution = torch.softmax(shifted / sampling.temperature, -1)
    if sampling.top_k is None and sampling.top_p is None:
        return distribution
    ordered, ids = torch.sort(distribution, dim=-1, descending=True, stable=True)
    if sampling.top_k is not None:
        ordered[..., sampling.top_k :] = 0
        ordered /= ordered.sum(-1, keepdim=True)
    if sampling.top_p is not None:
        mass = ordered.cumsum(-1)
        ordered[..., 1:][mass[..., :-1] >= sampling.top_p] = 0  # those before have the mass already
        ordered /= ordered.sum(-1, keepdim=True)
    return torch.zeros_like(ordered).scatter_(-1, ids, ordered)


def pick(distribution: Tensor, uniforms: Tensor | float) -> Tensor:
    """The token at which the sum of probabilities [..., V] passes the number in [0, 1) [...]: int64 [...].

    A token of probability 0 is never picked.
    """
    passed = distribution.cumsum(-1)
    goal = torch.as_tensor(uniforms, dtype=torch.float64).unsqueeze(-1) * passed[..., -1:]
    return torch.searchsorted(passed, goal, right=True).squeeze(-1)


def uniform(seed: int, sample: int, place: int) -> float:
    """A number in [0, 1) with 53 random bits; the same on every platform, whatever else is drawn."""
    (bits,) = random_uint64((seed, sample), 1, first=place)
    return int(bits >> 11) / 2**53


def _require(holds: bool, where: str, value: object, expected: str) -> None:
    if not holds:
        raise UserError(f"{value} is no value for {where}.", where=where, expected=expected, exit_code=ExitCode.USAGE)
