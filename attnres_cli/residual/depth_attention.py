"""Attention over depth: every sublayer mixes the outputs of earlier ones, with weights that it learns.

The state is a flat tuple of pairs (v_0, c_0, v_1, c_1, …), oldest source first: a value and its companion, which is the
1/rms of its key. At every site, all pairs in the state are the sources; a scheme says which outputs become sources of
their own and which are added to the newest one. (arXiv 2603.15031 §3; symbols: w_l query, v_i sources,
k_i = RMSNorm(v_i) keys.)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar, Self

import torch
from torch import Tensor

from attnres_cli.residual.alteration import Alteration
from attnres_cli.residual.arms import BASELINE
from attnres_cli.residual.backends import Backend
from attnres_cli.residual.depth_config import DepthAttentionConfig
from attnres_cli.residual.depth_query import DepthQuery, Keys, ProjectedKeys, SlicedKeys, WholeKeys, mixed_by_head
from attnres_cli.residual.fused import DepthPass
from attnres_cli.residual.fusing import can_fuse
from attnres_cli.residual.holding import are_held, held
from attnres_cli.residual.normalisers import SUM_TO_ONE
from attnres_cli.residual.parameters import Own, OwnParameters, Places, Role, normal
from attnres_cli.residual.precision import widen
from attnres_cli.residual.protocol import Cost, FusedPass, Geometry, Norm, Residual, Site, State, SublayerInput


class DepthAttention(Residual):
    """joins: for every sublayer, whether its output is added to the newest source; else it becomes a source itself."""

    equals_at_initialisation: str | None = BASELINE
    # Whether the steps below are all there is to the scheme, so that a fused pass may stand for them.
    fuses: ClassVar[bool] = True
    citation = "Kimi Team, Attention Residuals, arXiv 2603.15031"

    def __init__(self, config: DepthAttentionConfig, geometry: Geometry, joins: Sequence[bool]) -> None:
        super().__init__(config, geometry)
        self.backend = Backend(config.backend)
        # Without a source of its own the embedding begins the first one, so that all of them still add up to the
        # ordinary residual stream.
        self._joins = tuple(joins) if config.embedding_source else (True, *joins[1:])
        # For every sublayer, which one begins the source that its output is part of; -1: the embedding.
        self._begun_by = tuple(accumulate((-1 if j else i for i, j in enumerate(self._joins)), max))
        # A window that holds all sources is none: nothing else about the scheme may hang on it.
        most = (not config.embedding_source) + self._joins.count(False)
        self.window = config.window if config.window is not None and config.window < most else None
        # With one source, softmax and its like give the weight 1; other weights are a factor that a norm takes out, but
        # not where each head has one of its own.
        self._one_source_is_itself = config.normaliser in SUM_TO_ONE or config.depth_heads == 1
        self._names = self._names_with_all = self._names_by_site()
        width, sublayers = geometry.d_model, geometry.num_sublayers
        self.sites = Places(DepthQuery(config, width, len(self._names[each])) for each in range(sublayers))
        if config.final_mix:
            self.output = DepthQuery(config, width, len(self._names[-1]))
        if self._uses_keys and config.key_rank is not None and config.key_projection == "projected":
            initial = normal(width**-0.5)
            projection = Own(
                (config.key_rank, width), initial, Role.SCHEME_MATRIX, config.query_lr_factor, config.train_queries
            )
            self.keys_of = OwnParameters(projection=projection)
        self.keys = self._keys()
        if self.window is not None or config.query_init_std > 0:
            self.equals_at_initialisation = None

    @property
    def plain(self) -> bool:
        """Whether this is the paper's own mathematics (Eq. 2–4), whatever the sources and the first queries are."""
        config = self.config
        scaled = config.logit_scale != "none" or config.temperature != 1.0
        whole = self.window is None and config.embedding_source and config.final_mix
        return whole and not scaled and not config.changes_the_mathematics

    def prepare(self, device: torch.device) -> str:
        if self.config.changes_the_mathematics:
            return "residual path in plain PyTorch (a key of [residual] changes what the back ends compute)"
        return self.backend.prepare(device)

    # ---- the five steps of the trunk

    def open(self, embedding: Tensor) -> State:
        return self._born(embedding)

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        return site.norm(self._mixed(state, site.ordinal)), state

    def write(self, state: State, site: Site, output: Tensor) -> State:
        if self._joins[site.ordinal]:
            return state[:-2] + self._born(state[-2] + output)
        return self._within_window(state) + self._born(output)

    def close(self, state: State, final_norm: Norm) -> Tensor:
        """The output site mixes all sources, then the model's final norm (§3.2)."""
        if self.config.final_mix:
            return final_norm(self._mixed(state, self.geometry.num_sublayers))
        first, *rest = state[0::2]
        return final_norm(sum(rest, first))

    def fused_pass(self, embedding: Tensor) -> FusedPass | None:
        config, kernels = self.config, self.backend.op.kernels
        if not self.fuses or config.changes_the_mathematics or self.window is not None or not config.final_mix:
            return None
        if not can_fuse(kernels, self.output.query):
            return None
        assert kernels is not None
        ordinals = range(1, self.geometry.num_sublayers + 1)
        choosing = [self.chooses(ordinal) for ordinal in ordinals]
        queries = DepthQuery.folded_rows([self._query(ordinal) for ordinal in ordinals], choosing)
        return DepthPass(kernels, embedding, queries, self._joins, self.geometry.norm_epsilon)

    def stream(self, state: State) -> Tensor:
        """The newest source: the running block sum (Block), the last sublayer's output (Full)."""
        return state[-2]

    def altered(self, alteration: Alteration) -> Self:
        """Without some of its sublayers a sum begins with the first of those that are left; in a window, what is not
        there takes no place."""
        twin = super().altered(alteration)
        twin._joins = tuple(
            joins and twin._has_begun(ordinal, self._begun_by[ordinal]) for ordinal, joins in enumerate(self._joins)
        )
        twin._names = twin._names_by_site()
        return twin

    def _has_begun(self, ordinal: int, begun_by: int) -> bool:
        """Whether the source that sublayer `begun_by` begins holds anything before sublayer `ordinal` adds to it."""
        removed = self.alteration.removed
        return begun_by < 0 or any(each not in removed for each in range(begun_by, ordinal))

    # ---- sources

    @abstractmethod
    def source_label(self, ordinal: int) -> str:
        """The name of the source that sublayer `ordinal` begins."""

    def source_names(self, ordinal: int) -> tuple[str, ...]:
        """Names of the sources that sublayer `ordinal` (num_sublayers: the output site) attends to, oldest first."""
        return self._names[ordinal]

    def _names_by_site(self) -> tuple[tuple[str, ...], ...]:
        names = ["embedding"]
        by_site = [tuple(names)]
        for ordinal, joins in enumerate(self._joins):
            if joins and ordinal == 0:
                names = [f"embedding + {self.source_label(0)}"]
            elif not joins and ordinal not in self.alteration.removed:
                if self._window_is_full(len(names)):
                    names.pop(self._oldest)
                names.append(self.source_label(self._begun_by[ordinal]))
            by_site.append(tuple(names))
        return tuple(by_site)

    def source_family(self, name: str, ordinal: int) -> str | None:
        """By what a source holds: the embedding, one output of attention or of a feed-forward, a finished sum of
        outputs, or the sum that is still growing; early: begun in the first half of the sublayers."""
        begins = {self.source_label(first): first for first in self._begun_by if first >= 0}
        if name not in begins:
            return "embedding"
        first = begins[name]
        members = [each for each, begun_by in enumerate(self._begun_by) if begun_by == first]
        if len(members) > 1 and members[-1] >= ordinal:
            return "running sum"
        age = "early" if 2 * first < self.geometry.num_sublayers else "late"
        if len(members) > 1:
            return f"{age} sums"
        return f"{age} {('attention', 'feed-forward')[first % 2]}"

    @property
    def _oldest(self) -> int:
        """Where among the sources the one stands that leaves a full window first."""
        return 1 if self.config.embedding_source else 0

    def _window_is_full(self, sources: int) -> bool:
        return self.window is not None and sources - self._oldest >= self.window

    def _within_window(self, state: State) -> State:
        """The state with room for one more source."""
        if not self._window_is_full(len(state) // 2):
            return state
        return state[: 2 * self._oldest] + state[2 * self._oldest + 2 :]

    def _born(self, value: Tensor) -> State:
        """A source and its companion, computed once for all its consumers."""
        value = widen(value)
        if not self._uses_keys:
            return value, torch.ones_like(value[..., 0])
        if self.config.changes_the_mathematics:
            return value, self.keys.companion(value)
        return value, self.backend.op.inverse_rms(value, self.geometry.norm_epsilon)

    # ---- mixing

    def depth_weights(self, state: State, ordinal: int) -> tuple[tuple[str, ...], Tensor] | None:
        """As the protocol says; with several heads, the mean over them."""
        if ordinal == self.geometry.num_sublayers and not self.config.final_mix:
            return None
        names = self.source_names(ordinal)
        taken = tuple(names[index] for index in self.alteration.taken(ordinal, names))
        return taken, self._weights(state, self._query(ordinal), ordinal).mean(-1)

    def _mixed(self, state: State, ordinal: int) -> Tensor:
        return self._mixed_by(state, self._query(ordinal), ordinal)

    def _mixed_by(self, state: State, query: DepthQuery, ordinal: int) -> Tensor:
        values, companions = self._taken(state[0::2], ordinal), self._taken(state[1::2], ordinal)
        if len(values) == 1 and self._one_is_itself(ordinal):
            return values[0]
        if self.config.changes_the_mathematics or are_held():
            return mixed_by_head(values, self._weights(state, query, ordinal))
        return self.backend.op.mix(values, companions, query.folded())

    def _weights(self, state: State, query: DepthQuery, ordinal: int) -> Tensor:
        """[sources, B, T, heads]."""
        values, companions = self._taken(state[0::2], ordinal), self._taken(state[1::2], ordinal)
        if self.config.changes_the_mathematics:
            numbers = self._numbers(ordinal)
            weights = query.weights(values, companions, self.keys, self.geometry.norm_epsilon, state[-2], numbers)
            return held(weights.expand(len(values), *values[0].shape[:-1], -1))
        return held(self.backend.op.weights(values, companions, query.folded()).unsqueeze(-1))

    def _taken(self, of_sources: Sequence[Tensor], ordinal: int) -> Sequence[Tensor]:
        """Of one tensor per source, those of the sources that site `ordinal` may take."""
        if not self.alteration.masked:
            return of_sources
        return [of_sources[index] for index in self.alteration.taken(ordinal, self.source_names(ordinal))]

    def _one_is_itself(self, ordinal: int) -> bool:
        """Whether the only source that an alteration may have left at site `ordinal` is passed on as it is: a number of
        its own, which may be negative, stays its weight where it was one among others."""
        never_more = len(self._names_with_all[ordinal]) == 1
        return self._one_source_is_itself and (never_more or self.config.normaliser in SUM_TO_ONE)

    def _numbers(self, ordinal: int) -> list[int] | None:
        """Which of a site's learned numbers belong to the sources that it takes; None: all in order.

        A number belongs to the source of that name. In a window it belongs to a place: the embedding's, or one counted
        from the newest source.
        """
        names, with_all = self.source_names(ordinal), self._names_with_all[ordinal]
        if len(names) == len(with_all) and not self.alteration.masked:
            return None
        taken = self.alteration.taken(ordinal, names)
        if self.window is None:
            return [with_all.index(names[index]) for index in taken]
        shift = len(with_all) - len(names)
        return [index if index < self._oldest else index + shift for index in taken]

    def _query(self, ordinal: int) -> DepthQuery:
        query = self.output if ordinal == self.geometry.num_sublayers else self.sites.at(ordinal)
        assert isinstance(query, DepthQuery)
        return query

    @property
    def _uses_keys(self) -> bool:
        return bool(self.config.query != "scalars")

    def _keys(self) -> Keys:
        config, width, epsilon = self.config, self.geometry.d_model, self.geometry.norm_epsilon
        if config.key_rank is None or not self._uses_keys:
            return WholeKeys(width, epsilon, config.key_norm)
        if config.key_projection == "sliced":
            return SlicedKeys(config.key_rank, epsilon, config.key_norm)
        return ProjectedKeys(self.keys_of, config.key_rank, epsilon, config.key_norm)

    # ---- what the rest of the house asks of a scheme

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        return tuple(part for name in self.source_names(ordinal) for part in (name, f"companion({name})"))

    def dead_parameters(self) -> dict[str, str]:
        return self._dead_at(self.sites, "sites", range(self.geometry.num_sublayers))

    def _dead_at(self, places: Places, prefix: str, ordinals: Sequence[int]) -> dict[str, str]:
        """Of `places`, one per sublayer of `ordinals`, the parameters of those that have nothing to choose."""
        return {
            f"{prefix}.{index}.{name}": "with one source there is nothing to choose, whatever the query"
            for index, ordinal in enumerate(ordinals)
            if not self.chooses(ordinal)
            for name in places.at(index).declared
        }

    def chooses(self, ordinal: int) -> bool:
        """Whether what site `ordinal` learns has any effect."""
        sources = len(self.source_names(ordinal))
        return sources > 1 or (sources == 1 and not self._one_source_is_itself)

    def cost(self) -> Cost:
        """Mixing at every site that has a choice; per source the mean square of its key (2 r) and, where keys are
        projected, that (2 r d)."""
        d, sublayers = self.geometry.d_model, self.geometry.num_sublayers
        rank = self.keys.width if self._uses_keys else 0
        sites = range(sublayers + 1 if self.config.final_mix else sublayers)
        births = self.births()
        flops = sum(self.mixing_flops(len(self.source_names(ordinal))) for ordinal in sites)
        if self._uses_keys and self.config.key_norm:
            flops += 2.0 * rank * births
        if isinstance(self.keys, ProjectedKeys):
            flops += 2.0 * rank * d * births
        live = len(self.source_names(sublayers)) * (d + self.keys.companion_width)
        return Cost(self.own_parameters(), flops, float(live))

    def births(self) -> int:
        """How many times a source's key is formed: once for the embedding, and after every sublayer."""
        return self.geometry.num_sublayers + 1

    def mixing_flops(self, sources: int) -> float:
        """One site's, per token: per source a dot product over the key's channels and a multiply-add over all
        (2 r + 2 d); where the query is made of the newest source, 2 r d for that. Nothing with one source."""
        if sources < 2:
            return 0.0
        d, rank = self.geometry.d_model, self.keys.width if self._uses_keys else 0
        made = 2.0 * rank * d if self.config.query == "input" else 0.0
        return (2.0 * rank + 2.0 * d) * sources + made
