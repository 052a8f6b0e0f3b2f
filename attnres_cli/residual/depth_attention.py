"""What Full and Block AttnRes share: a query and a key norm per sublayer, and softmax over depth.

The state is a flat tuple of pairs (v_0, 1/rms v_0, v_1, 1/rms v_1, …), oldest source first. At every site, all pairs in
the state are the sources; a scheme decides in `write` whether a sublayer's output becomes a source of its own or is
added to the newest one. (arXiv 2603.15031 §3; symbols: w_l query, v_i sources, k_i = RMSNorm(v_i) keys.)
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from attnres_cli.residual.backends import Backend, BackendConfig
from attnres_cli.residual.fused import DepthPass
from attnres_cli.residual.fusing import can_fuse
from attnres_cli.residual.operator import widen
from attnres_cli.residual.parameters import Own, OwnParameters, Places, Role, ones, zeros
from attnres_cli.residual.protocol import Cost, FusedPass, Geometry, Norm, Residual, Site, State


class DepthAttentionConfig(BackendConfig):
    """Keys that every scheme with softmax over depth has."""

    gain: bool = Field(True, description="the key norm has a learned gain, as the released Kimi K3 has")
    query_lr_factor: Annotated[float, Field(gt=0)] = Field(
        1.0, description="learning rate of queries and key gains over that of the rest"
    )


class DepthQuery(OwnParameters):
    """The pseudo-query w_l and the gain of the key norm at one site: 2 d parameters (d without gain)."""

    def __init__(self, d_model: int, gain: bool, learning_rate_factor: float) -> None:
        own = {"query": Own((d_model,), zeros, Role.DEPTH_QUERY, learning_rate_factor)}
        if gain:
            own["key_gain"] = Own((d_model,), ones, Role.DEPTH_GAIN, learning_rate_factor)
        super().__init__(**own)

    def folded(self) -> Tensor:
        """w ⊙ g, [d]: wᵀ(g ⊙ k̂) = (w ⊙ g)ᵀ k̂, so the gain never touches the keys."""
        query = widen(self.query)
        return query * self.key_gain if "key_gain" in self.declared else query


class DepthAttention(Residual):
    """Softmax attention over depth; subclasses say what the sources are."""

    equals_at_initialisation = "prenorm"
    citation = "Kimi Team, Attention Residuals, arXiv 2603.15031"

    def __init__(self, config: DepthAttentionConfig, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        self.backend = Backend(config.backend)
        factor = config.query_lr_factor
        self.sites = Places(DepthQuery(geometry.d_model, config.gain, factor) for _ in range(geometry.num_sublayers))
        self.output = DepthQuery(geometry.d_model, config.gain, factor)

    def prepare(self, device: torch.device) -> str:
        return self.backend.prepare(device)

    # ---- the five steps of the trunk

    def open(self, embedding: Tensor) -> State:
        return self._born(embedding)

    def read(self, state: State, site: Site) -> tuple[Tensor, State]:
        return site.norm(self._mixed(state, site.ordinal)), state

    def write(self, state: State, site: Site, output: Tensor) -> State:
        if self.joins(site.ordinal):
            return state[:-2] + self._born(state[-2] + output)
        return state + self._born(output)

    def close(self, state: State, final_norm: Norm) -> Tensor:
        """The output site mixes all sources, then the model's final norm (§3.2)."""
        return final_norm(self._mixed(state, self.geometry.num_sublayers))

    def fused_pass(self, embedding: Tensor) -> FusedPass | None:
        kernels = self.backend.op.kernels
        if not can_fuse(kernels, self.output.query):
            return None
        assert kernels is not None
        sites = [self._query(ordinal) for ordinal in range(1, self.geometry.num_sublayers + 1)]
        queries = torch.stack([site.query for site in sites])
        if self.config.gain:
            queries = queries * torch.stack([site.key_gain for site in sites])
        joins = [self.joins(ordinal) for ordinal in range(self.geometry.num_sublayers)]
        return DepthPass(kernels, embedding, queries, joins, self.geometry.norm_epsilon)

    def stream(self, state: State) -> Tensor:
        """The newest source: the running block sum (Block), the last sublayer's output (Full)."""
        return state[-2]

    # ---- mixing

    @abstractmethod
    def joins(self, ordinal: int) -> bool:
        """Whether the output of sublayer `ordinal` is added to the newest source; else it becomes a source itself."""

    @abstractmethod
    def source_names(self, ordinal: int) -> tuple[str, ...]:
        """Names of the sources that sublayer `ordinal` (num_sublayers: the output site) attends to, oldest first."""

    def depth_weights(self, state: State, ordinal: int) -> tuple[tuple[str, ...], Tensor]:
        values, scales = state[0::2], state[1::2]
        names = self.source_names(ordinal)
        assert len(names) == len(values), (names, len(values))
        return names, self.backend.op.weights(values, scales, self._query(ordinal).folded())

    def _mixed(self, state: State, ordinal: int) -> Tensor:
        values, scales = state[0::2], state[1::2]
        if len(values) == 1:  # softmax over one source is 1: the first sublayer sees the embedding itself
            return values[0]
        return self.backend.op.mix(values, scales, self._query(ordinal).folded())

    def _born(self, value: Tensor) -> State:
        """A source and the 1/rms of its key, computed once for all its consumers."""
        value = widen(value)
        return value, self.backend.op.inverse_rms(value, self.geometry.norm_epsilon)

    def _query(self, ordinal: int) -> DepthQuery:
        query = self.output if ordinal == self.geometry.num_sublayers else self.sites.at(ordinal)
        assert isinstance(query, DepthQuery)
        return query

    # ---- what the rest of the house asks of a scheme

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        return tuple(part for name in self.source_names(ordinal) for part in (name, f"inverse_rms({name})"))

    def dead_parameters(self) -> dict[str, str]:
        reason = "the first sublayer has one source, whose weight is 1 whatever the query"
        return {f"sites.0.{name}": reason for name in self.sites.at(0).declared}

    def cost(self) -> Cost:
        """Per source and consumer a dot product and a multiply-add (4 d); per source its mean square (2 d)."""
        d, sublayers = self.geometry.d_model, self.geometry.num_sublayers
        counts = [len(self.source_names(ordinal)) for ordinal in range(sublayers + 1)]
        consumed = sum(count for count in counts if count > 1)
        births = sublayers + 1
        return Cost(
            parameters=(sublayers + 1) * d * (2 if self.config.gain else 1),
            forward_flops_per_token=4.0 * d * consumed + 2.0 * d * births,
            live_elements_per_token=float(counts[-1] * (d + 1)),
        )
