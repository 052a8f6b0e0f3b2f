"""Ways of mixing: the paper's, and the known wrong ones, each as one change of it.

h = Σ_i α_i v_i, α = softmax_i(w · RMSNorm(v_i)) (arXiv 2603.15031, Eq. 2-4), vectorised and differentiable, so that a
user's module can be held against every one of them in value and in gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

QUERY, KEYS, GAIN = "each site has its own query", "keys are RMS-normalised", "the key norm's gain acts"
SCALE, SOFTMAX, VALUES = "logits have no scale", "softmax over the sources", "values are not normalised"
PRECISION = "float32 or wider inside"


@dataclass(frozen=True)
class Recipe:
    """The defaults are the paper's. scale: power of d on the logits. stopped: what is detached ("keys", "values",
    "queries")."""

    keys: str = "rms"
    scale: float = 0.0
    gain: bool = True
    values: str = "raw"
    over: str = "sources"
    weights: str = "softmax"
    stopped: frozenset[str] = frozenset()

    def mix(self, sources: Tensor, queries: Tensor, gains: Tensor | None, epsilon: float) -> Tensor:
        """sources: [n, B, T, d]; queries, gains: [J, d] → what each of the J queries makes of them, [J, B, T, d]."""
        width = sources.shape[-1]
        keys = sources.detach() if "keys" in self.stopped else sources
        if self.keys == "layer norm":
            keys = keys - keys.mean(-1, keepdim=True)
        inverse_rms = torch.rsqrt(sources.square().mean(-1, keepdim=True) + epsilon)
        if self.keys != "raw":
            keys = keys * torch.rsqrt(keys.square().mean(-1, keepdim=True) + epsilon)
        w = queries if gains is None or not self.gain else queries * gains
        w = w.detach() if "queries" in self.stopped else w
        products = w[:, None, None, None, :] * keys * width**self.scale  # [J, n, B, T, d]
        logits = products if self.over == "channels" else products.sum(-1, keepdim=True)
        alpha = self._normalised(logits)
        values = sources.detach() if "values" in self.stopped else sources
        return (alpha * (values * inverse_rms if self.values == "normalised" else values)).sum(1)

    def _normalised(self, logits: Tensor) -> Tensor:
        if self.weights == "sigmoid":
            return torch.sigmoid(logits)
        alpha = torch.softmax(logits, dim=3 if self.over == "tokens" else 1)
        return alpha * logits.shape[1] if self.weights == "sum" else alpha


@dataclass(frozen=True)
class Fault:
    """A known wrong way: which property it breaks, what the user should hear, and what it changes in a `Recipe`."""

    breaks: str
    told: str
    change: tuple[tuple[str, Any], ...]


FAULTS = (
    Fault(KEYS, "equals ours with keys that are not normalised", (("keys", "raw"),)),
    Fault(KEYS, "equals ours with LayerNorm keys: the mean is taken out, too", (("keys", "layer norm"),)),
    Fault(SCALE, "equals ours with a 1/sqrt(d) scale (or keys of norm 1 instead of sqrt(d))", (("scale", -0.5),)),
    Fault(SCALE, "equals ours with a 1/d scale (a mean over channels instead of a sum)", (("scale", -1.0),)),
    Fault(GAIN, "equals ours with the gain left out", (("gain", False),)),
    Fault(VALUES, "equals ours with normalised values: what is summed up are the keys", (("values", "normalised"),)),
    Fault(SOFTMAX, "equals ours with the softmax over tokens instead of sources", (("over", "tokens"),)),
    Fault(SOFTMAX, "equals ours with a softmax for every channel of its own", (("over", "channels"),)),
    Fault(SOFTMAX, "equals ours with sigmoid weights: they do not sum to one", (("weights", "sigmoid"),)),
    Fault(SOFTMAX, "equals ours times the number of sources: a sum at zero queries, not a mean", (("weights", "sum"),)),
)


def recipes(has_gains: bool) -> list[tuple[tuple[Fault, ...], Recipe]]:
    """The paper's recipe, every fault alone, and every two that break different properties."""
    known = [fault for fault in FAULTS if has_gains or fault.breaks != GAIN]
    pairs = [pair for pair in combinations(known, 2) if pair[0].breaks != pair[1].breaks]
    return [(faults, with_faults(faults)) for faults in [(), *((fault,) for fault in known), *pairs]]


def with_faults(faults: Sequence[Fault]) -> Recipe:
    return replace(Recipe(), **dict(change for fault in faults for change in fault.change))
