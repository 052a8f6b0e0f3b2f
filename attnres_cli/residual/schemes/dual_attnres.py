"""Dual-stream Attention Residuals: two sets of sources, each chosen from by the keys of the other."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from attnres_cli.residual.block_sums import BlockConfig, BlockSums
from attnres_cli.residual.depth_query import DepthQuery, mixed_by_head
from attnres_cli.residual.parameters import Own, OwnParameters, Places, constant, inverse_sigmoid
from attnres_cli.residual.precision import widen
from attnres_cli.residual.protocol import Cost, Geometry, Norm, Site, State, SublayerInput


class Config(BlockConfig):
    """[residual] scheme = "dual-attnres"."""

    ignored_keys: ClassVar[tuple[str, ...]] = ("window", "embedding_source", "final_mix")

    # Two mixtures are added first, each with a factor of its own.
    mixture_is_normalised: ClassVar[bool] = False

    scheme: Literal["dual-attnres"] = "dual-attnres"
    write_share: Annotated[float, Field(gt=0.5, lt=1)] = Field(
        0.9, description="share of attention's outputs that stream a gets at first, and of feed-forward's that b gets"
    )


class Scheme(BlockSums):
    """The method's own text was not at hand. This is a reading of its summary (two streams, cross-addressed, exact
    2 × 2 doubly stochastic writes) that keeps what can be kept:

    Streams a and b begin with half the embedding each. Sublayer l sees Norm(h^a + h^b) with
    h^a = Σ softmax_n(w^a · RMSNorm(b^b_n)) b^a_n, and the other way round. Its output y is written as
    [[p, 1 - p], [1 - p, p]] (y, 0) after attention and (0, y) after the feed-forward, p = σ(θ_l): both streams together
    always hold y whole. So at zero queries both mixtures add up to the mean, and the scheme is the baseline. p must not
    start at one half: two equal streams with equal queries would stay equal for ever.

    State: (a, companion, b, companion) per source.
    """

    fuses = False
    belongs_to_sublayers = ("sites", "other_sites", "writes")
    citation = "Dual Attention Residuals, arXiv 2607.18730"
    formula = "h_l = Σ_n α^a_n b^a_n + Σ_n α^b_n b^b_n, α^a from the keys of b^b and α^b from those of b^a"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        counts = [len(self.source_names(ordinal)) for ordinal in range(geometry.num_sublayers)]
        self.other_sites = Places(DepthQuery(config, geometry.d_model, count) for count in counts)
        self.other_output = DepthQuery(config, geometry.d_model, len(self.source_names(geometry.num_sublayers)))
        share = Own((), constant(inverse_sigmoid(config.write_share)))
        self.writes = Places(OwnParameters(share=share) for _ in counts)

    def open(self, embedding: Tensor) -> State:
        half = 0.5 * widen(embedding)
        return (*self._born(half), *self._born(half))

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        return site.norm(self._both(state, site.ordinal)), state

    def write(self, state: State, site: Site, output: Tensor) -> State:
        share = torch.sigmoid(widen(self.writes.at(site.ordinal).share))
        output = widen(output)
        a, b = share * output, (1 - share) * output
        if site.kind == "feed_forward":
            a, b = b, a
        if self._joins[site.ordinal]:
            return (*state[:-4], *self._born(state[-4] + a), *self._born(state[-2] + b))
        return (*state, *self._born(a), *self._born(b))

    def close(self, state: State, final_norm: Norm) -> Tensor:
        return final_norm(self._both(state, self.geometry.num_sublayers))

    def stream(self, state: State) -> Tensor:
        """The running block sum of both streams together."""
        return state[-4] + state[-2]

    def stream_parts(self, state: State) -> tuple[Tensor, ...]:
        return state[-4], state[-2]

    def depth_weights(self, state: State, ordinal: int) -> tuple[tuple[str, ...], Tensor]:
        """The mean of both streams' weights."""
        names = self.source_names(ordinal)
        taken = tuple(names[index] for index in self.alteration.taken(ordinal, names))
        return taken, torch.stack(self._cross_weights(state, ordinal)).mean((0, -1))

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        parts = ("a", "companion(a)", "b", "companion(b)")
        return tuple(f"{part} of {name}" for name in self.source_names(ordinal) for part in parts)

    def dead_parameters(self) -> dict[str, str]:
        every = range(self.geometry.num_sublayers)
        return super().dead_parameters() | self._dead_at(self.other_sites, "other_sites", every)

    def cost(self) -> Cost:
        """Everything twice, and the split writes (2 d per sublayer)."""
        base, d = super().cost(), self.geometry.d_model
        flops = 2 * base.forward_flops_per_token + 2.0 * d * self.geometry.num_sublayers
        return Cost(base.parameters, flops, 2 * base.live_elements_per_token)

    def _both(self, state: State, ordinal: int) -> Tensor:
        a, b = self._taken(state[0::4], ordinal), self._taken(state[2::4], ordinal)
        if len(a) == 1 and self._one_is_itself(ordinal):
            return a[0] + b[0]
        of_a, of_b = self._cross_weights(state, ordinal)
        return mixed_by_head(a, of_a) + mixed_by_head(b, of_b)

    def _cross_weights(self, state: State, ordinal: int) -> tuple[Tensor, Tensor]:
        """Weights [sources, B, T, heads] of stream a, from b's keys, and of stream b, from a's."""
        last = ordinal == self.geometry.num_sublayers
        other = self.other_output if last else self.other_sites.at(ordinal)
        assert isinstance(other, DepthQuery)
        pairs_a = tuple(part for at in range(0, len(state), 4) for part in state[at : at + 2])
        pairs_b = tuple(part for at in range(2, len(state), 4) for part in state[at : at + 2])
        return self._weights(pairs_b, self._query(ordinal), ordinal), self._weights(pairs_a, other, ordinal)
