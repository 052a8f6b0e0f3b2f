"""What one site of depth attention learns, and how that becomes weights over the sources.

The plain kind, a static query against normalised keys with softmax, is what the operator's back ends compute (fused,
residual/ops). The other kinds, ablations and descendants, are computed here, in plain PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from attnres_cli.residual.depth_config import DepthAttentionConfig
from attnres_cli.residual.mixing import weighted_sum
from attnres_cli.residual.normalisers import NORMALISERS
from attnres_cli.residual.parameters import Initial, Own, OwnParameters, Role, normal, ones, zeros
from attnres_cli.residual.precision import full_precision, inverse_rms, widen


class Keys(Protocol):
    """How a source becomes a key. What is kept of it from its birth on is its companion in the state."""

    width: int
    # Numbers of the companion per token.
    companion_width: int

    def companion(self, value: Tensor) -> Tensor:
        """[…, d] → 1/rms of the key [...], or the key itself [..., width]."""

    def scored(self, value: Tensor, companion: Tensor, query: Tensor, heads: int) -> Tensor:
        """q · k per head, [..., heads]; query: [width] or [..., width]."""


class WholeKeys:
    """k = v / rms(v), or v itself where keys are not normalised."""

    companion_width = 1

    def __init__(self, d_model: int, epsilon: float, normalised: bool) -> None:
        self.width, self._epsilon, self._normalised = d_model, epsilon, normalised

    def companion(self, value: Tensor) -> Tensor:
        return inverse_rms(value, self._epsilon) if self._normalised else torch.ones_like(value[..., 0])

    def scored(self, value: Tensor, companion: Tensor, query: Tensor, heads: int) -> Tensor:
        return _per_head(value * query, heads) * companion.unsqueeze(-1)


class SlicedKeys:
    """The last `width` channels of a source, normalised by themselves (Low-Rank AttnRes, arXiv 2607.09694)."""

    companion_width = 1

    def __init__(self, width: int, epsilon: float, normalised: bool) -> None:
        self.width, self._whole = width, WholeKeys(width, epsilon, normalised)

    def companion(self, value: Tensor) -> Tensor:
        return self._whole.companion(value[..., -self.width :])

    def scored(self, value: Tensor, companion: Tensor, query: Tensor, heads: int) -> Tensor:
        return self._whole.scored(value[..., -self.width :], companion, query, heads)


class ProjectedKeys:
    """k = P v, normalised; P [width, d] is one for all sources, because a running sum has many makers.

    own: holds it as `projection`.
    """

    def __init__(self, own: OwnParameters, width: int, epsilon: float, normalised: bool) -> None:
        self._own, self._epsilon, self._normalised = own, epsilon, normalised
        self.width = self.companion_width = width

    def companion(self, value: Tensor) -> Tensor:
        with full_precision(value):
            key = torch.nn.functional.linear(value, widen(self._own.projection))
        return key * inverse_rms(key, self._epsilon).unsqueeze(-1) if self._normalised else key

    def scored(self, value: Tensor, companion: Tensor, query: Tensor, heads: int) -> Tensor:
        return _per_head(companion * query, heads)


class DepthQuery(OwnParameters):
    """The parameters of one site with `sources` sources: a query w [d] and key gain g [d]; a matrix W [d, d] (and gain)
    that makes a query of the newest source; or one number per head and source."""

    def __init__(self, config: DepthAttentionConfig, d_model: int, sources: int) -> None:
        width = config.key_rank or d_model
        std = config.query_init_std
        first: Initial = normal(std) if std else zeros
        own: dict[str, Own] = {}
        if config.query == "scalars":
            if config.normaliser == "raw":  # weights as they are: those of the mean
                first = normal(std, mean=1.0 / sources)
            own["logits"] = self._own(config, (config.depth_heads, sources), first)
        else:
            shape, role = (
                ((width, d_model), Role.SCHEME_MATRIX) if config.query == "input" else ((width,), Role.DEPTH_QUERY)
            )
            own["query_matrix" if config.query == "input" else "query"] = self._own(config, shape, first, role)
            if config.key_norm and config.gain:
                own["key_gain"] = self._own(config, (width,), ones, Role.DEPTH_GAIN)
        super().__init__(**own)
        self._kind, self._heads = config.query, config.depth_heads
        self._normalise = NORMALISERS[config.normaliser]
        scale = (width // config.depth_heads) ** -0.5 if config.logit_scale == "1/sqrt(d)" else 1.0
        self._factor = scale / config.temperature

    def folded(self) -> Tensor:
        """Of a static query: w ⊙ g and the factor of the logits, [d]: wᵀ(g ⊙ k̂) = (w ⊙ g)ᵀ k̂, so that the gain never
        touches the keys."""
        return self._with_gain(widen(self.query))

    @staticmethod
    def folded_rows(sites: Sequence[DepthQuery], choosing: Sequence[bool]) -> Tensor:
        """`folded` of many sites, [sites, d], in as few operations as for one. A site that is not choosing (it has one
        source) is given no gradient, which would be rounding."""

        def rows(name: str) -> Tensor:
            own = [site.get_parameter(name) for site in sites]
            return torch.stack([row if chooses else row.detach() for row, chooses in zip(own, choosing, strict=True)])

        queries = widen(rows("query"))
        if "key_gain" in sites[0].declared:
            queries = queries * rows("key_gain")
        return queries if sites[0]._factor == 1.0 else queries * sites[0]._factor

    def weights(
        self,
        values: Sequence[Tensor],
        companions: Sequence[Tensor],
        keys: Keys,
        epsilon: float,
        newest: Tensor,
        numbers: Sequence[int] | None,
    ) -> Tensor:
        """Of n sources [..., d]: [n, ..., heads]. newest [..., d]: what a query is made of, whether or not it is among
        the sources; numbers: which of the site's own numbers are theirs (None: all)."""
        if self._kind == "scalars":
            logits = self.logits if numbers is None else self.logits[:, list(numbers)]
            assert logits.shape[1] == len(values), (logits.shape, len(values))
            per_source = self._normalise(widen(logits).t())
            return per_source.view(len(values), *([1] * (values[0].dim() - 1)), self._heads)
        if self._kind == "input":
            normed = newest * inverse_rms(newest, epsilon).unsqueeze(-1)
            with full_precision(normed):
                query = self._with_gain(torch.nn.functional.linear(normed, widen(self.query_matrix)))
        else:
            query = self.folded()
        pairs = zip(values, companions, strict=True)
        return self._normalise(torch.stack([keys.scored(v, companion, query, self._heads) for v, companion in pairs]))

    def _with_gain(self, query: Tensor) -> Tensor:
        gained = query * self.key_gain if "key_gain" in self.declared else query
        return gained if self._factor == 1.0 else gained * self._factor

    @staticmethod
    def _own(
        config: DepthAttentionConfig, shape: tuple[int, ...], initial: Initial, role: Role = Role.DEPTH_QUERY
    ) -> Own:
        return Own(shape, initial, role, config.query_lr_factor, config.train_queries)


def mixed_by_head(values: Sequence[Tensor], weights: Tensor) -> Tensor:
    """Σ_n weights[n] v_n per head: n × [..., d] and [n, ..., heads] → [..., d]. Sources are never stacked."""
    heads = weights.shape[-1]
    parts = [_by_head(value, heads) for value in values]
    return weighted_sum(parts, weights.unsqueeze(-1).unbind()).flatten(-2)


def _per_head(products: Tensor, heads: int) -> Tensor:
    return _by_head(products, heads).sum(-1)


def _by_head(x: Tensor, heads: int) -> Tensor:
    """[..., d] → [..., heads, d / heads]."""
    return x.view(*x.shape[:-1], heads, x.shape[-1] // heads)
