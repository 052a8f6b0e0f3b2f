"""The depth-attention operator: one interface, one file per back end in `residual/ops/`.

h = Σ_i α_i v_i with α = softmax_i(q · v_i / rms(v_i)), for every token apart (arXiv 2603.15031, Eq. 2–4). A back end
never stacks its sources. Statistics, logits, softmax and sums are taken in promote_types(source dtype, float32).

Every back end offers the *functional* form: plain functions that autograd and torch.compile can follow. Some offer
*kernels*, too: both directions of a whole site (block sum, statistics, mixing, PreNorm) without autograd, which
`residual/fused.py` and `residual/add_norm.py` join into one pass over depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class DepthAttentionOp(Protocol):
    """What every back end's module offers. M stands for the token dimensions ([B, T] in the model)."""

    NAME: str
    # None: only the functional form.
    kernels: Kernels | None

    def unusable(self, device: torch.device) -> str | None:
        """Why this back end cannot work on `device` here, in a few words, or None. May build what it needs."""

    def inverse_rms(self, value: Tensor, epsilon: float) -> Tensor:
        """1 / sqrt(mean square + epsilon) of a source: [..., d] → [...]. Called once, when the source is born."""

    def mix(self, values: Sequence[Tensor], inverse_rms: Sequence[Tensor], query: Tensor) -> Tensor:
        """Weighted sum of the sources, [M, d]. values: n × [M, d], of any floating types; inverse_rms: n × [M]; query:
        [d], gain folded in; both wide, and so is the result."""

    def weights(self, values: Sequence[Tensor], inverse_rms: Sequence[Tensor], query: Tensor) -> Tensor:
        """The softmax over depth itself, [n, M]; what `mix` weighs with."""


class Normed(NamedTuple):
    """A PreNorm's result. kept: what its backward pass needs beside the gain: the output itself (the same tensor as
    `output`) or, where a gain is too close to zero to divide by, the input; inverse_rms: [M]."""

    output: Tensor
    kept: Tensor
    inverse_rms: Tensor


class Site(NamedTuple):
    """One site's forward pass. value: the newest source [M, d]; scale: its 1/rms [M]; normed: norm of the mixture;
    logits: [M, n], one column per source that the site itself read; log_total: log Σ exp over all logits, [M]."""

    value: Tensor
    scale: Tensor
    normed: Normed
    logits: Tensor
    log_total: Tensor


class Ahead(NamedTuple):
    """Phase one of two: G queries against the finished sources, before the softmax is closed.

    mixed: Σ exp(logit - peak) v, [G, M, d]; peak, total (Σ exp(logit - peak)): [G, M]; logits: [G, M, n].
    """

    mixed: Tensor
    peak: Tensor
    total: Tensor
    logits: Tensor

    def query(self, which: int) -> Ahead:
        return Ahead(self.mixed[which], self.peak[which], self.total[which], self.logits[which])


@dataclass(slots=True)
class Consumer:
    """A site as its sources see it in the backward pass: gradient of its mixture [M, d], the gradient's product with
    the mixture [M], the site's query [d] and log_total [M], and the logits tensor and column of the source at hand."""

    grad_mixed: Tensor
    grad_dot_mixed: Tensor
    query: Tensor
    log_total: Tensor
    logits: Tensor
    column: int


class Kernels(Protocol):
    """Raw computations, no autograd. All tensors contiguous, tokens flattened to M. `wide` is promote_types(dtype,
    float32) of a source; statistics, logits, mixtures, sums and gradients of sources are wide."""

    # Whether a forward pass alone (`backward` false) may leave sources unflattened; outputs then have their shape.
    any_shape: bool
    # Whether `site` takes `ahead` and `look_ahead` exists.
    two_phase: bool
    # Whether `source_backward` reads its consumers' rows once for all sources of a call.
    groups_sources: bool
    # Dtypes of gains and queries that it computes with; sources may be narrower.
    dtypes: frozenset[torch.dtype]

    def site(
        self,
        values: Sequence[Tensor],
        scales: Sequence[Tensor],
        newest: Tensor,
        update: Tensor | None,
        query: Tensor,
        gain: Tensor,
        epsilon: float,
        dtype: torch.dtype,
        ahead: Ahead | None,
        backward: bool,
    ) -> Site:
        """Mix the finished sources `values` (with their 1/rms `scales`) and the newest one, then normalise.

        The newest source is `newest`, or `newest + update` (wide) where an update is given. `ahead` (of one query)
        stands for finished sources that are not in `values`. dtype: of the normed output. backward: whether kept,
        inverse_rms, logits and log_total are wanted; else they may be empty.
        """

    def look_ahead(self, values: Sequence[Tensor], scales: Sequence[Tensor], queries: Tensor) -> Ahead:
        """Phase one for `queries` [G, d]."""

    def add_norm(
        self,
        stream: Tensor,
        update: Tensor | None,
        gain: Tensor,
        epsilon: float,
        dtype: torch.dtype,
        backward: bool,
    ) -> tuple[Tensor, Normed]:
        """The plain residual's site: (stream + update, its norm); backward as in `site`."""

    def norm_backward(
        self, grad: Tensor, normed: Normed, gain: Tensor, epsilon: float, carry: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(gradient of the norm's input + carry, product of the former (without carry) with the input [M], gradient of
        the gain [d])."""

    def source_backward(
        self,
        values: Sequence[Tensor],
        scales: Sequence[Tensor],
        consumers: Sequence[Sequence[Consumer]],
        carry: Tensor | None,
    ) -> tuple[Sequence[Tensor], Tensor]:
        """(gradients of S sources, S × [M, d], gradients of their n consumers' queries [n, d]).

        consumers: for each source, the same n sites with the logits of that source. carry is added to the first
        source's gradient. With α = exp(logit - log_total), g = grad_mixed · v and a = α (g - grad_dot_mixed), the
        gradient of a logit:
        dv = carry + Σ α grad_mixed + scale Σ a q - scale² / d (Σ a logit) v;  dq = Σ_sources Σ_tokens a scale v.
        """
