"""Depth attention's fused pass: the whole loop through a back end's kernels, with the backward pass written out.

There is one node of the autograd graph per site. A node normalises its mixture backwards, which gives the
gradient of the mixture, and leaves that where earlier nodes find it. Then its own newest source has heard from all its
consumers (they are later sites, and have run), and gathers its gradient in one pass: no source's gradient is ever
summed up piece by piece, and no source is copied. Autograd sees a chain: each node's input is the newest source alone.

The nodes of one pass share a `_Tape`, so such a graph cannot be traced: under torch.compile the stepwise loop runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnres_cli.residual import operator
from attnres_cli.residual.fusing import as_is, flat_rows, output_dtype, shaped
from attnres_cli.residual.operator import Ahead, Consumer, Kernels, Normed
from attnres_cli.residual.protocol import Norm, Site


class DepthPass:
    """Softmax attention over depth. joins[l]: whether sublayer l's output is added to the newest source."""

    def __init__(
        self, kernels: Kernels, embedding: Tensor, queries: Tensor, joins: Sequence[bool], epsilon: float
    ) -> None:
        """queries: [sites - 1, d], gains folded in, of every site but the first, which has one source and no choice."""
        self._tape = _Tape(kernels, queries.detach(), joins, epsilon)
        self._output = embedding
        self._link: Tensor | None = None  # None: no gradients are wanted
        if torch.is_grad_enabled():
            self._link = _Queries.apply(self._tape, queries)  # type: ignore[no-untyped-call]

    def read(self, site: Site) -> Tensor:
        return self._normed(site.ordinal, site.norm)

    def write(self, site: Site, output: Tensor) -> None:
        self._output = output

    def close(self, final_norm: Norm) -> Tensor:
        return self._normed(len(self._tape.joins), final_norm)

    def _normed(self, ordinal: int, norm: Norm) -> Tensor:
        if self._link is None:
            dtype = output_dtype(self._output, norm.gain)
            rows = as_is if self._tape.kernels.any_shape else flat_rows
            site, _ = self._tape.site(ordinal, rows(self._output), norm.gain, dtype, False)
            return shaped(site.normed.output, self._output.shape)
        x: Tensor
        x, self._link = _DepthSite.apply(  # type: ignore[no-untyped-call]
            self._tape, ordinal, self._link, self._output, norm.gain
        )
        return x


@dataclass
class _Record:
    """What a site leaves in the backward pass for its sources. pieces: first source and logits of each part."""

    ordinal: int
    grad_mixed: Tensor
    grad_dot_mixed: Tensor
    query: Tensor
    log_total: Tensor
    pieces: Sequence[tuple[int, Tensor]]

    def consumes(self, slot: int) -> Consumer:
        first, logits = next(piece for piece in reversed(self.pieces) if piece[0] <= slot)
        return Consumer(self.grad_mixed, self.grad_dot_mixed, self.query, self.log_total, logits, slot - first)


@dataclass
class _Ahead:
    """Phase one for the sites [first, last), over the sources that were finished at `first`."""

    first: int
    last: int
    sources: int
    found: Ahead


class _Tape:
    """What the sites of one pass share: forward the sources, backward the records.

    Each site reads all its sources, and each source all its consumers: L² / 2 rows of d channels per token, either way.
    Where the back end can, neighbours read them together: some sites look ahead at the sources that are finished, some
    sources gather from the sites that are done.
    """

    def __init__(self, kernels: Kernels, queries: Tensor, joins: Sequence[bool], epsilon: float) -> None:
        self.kernels, self.queries, self.joins, self.epsilon = kernels, queries, joins, epsilon
        self.sites = len(joins) + 1
        self._each_query = queries.unbind(0)
        self.values: list[Tensor] = []
        self.scales: list[Tensor] = []
        self.newest: tuple[Tensor, Tensor] | None = None
        self._ahead = _NOTHING_AHEAD
        self._graph_task = -1
        self._records: list[_Record] = []
        self._carry: Tensor | None = None
        self._gathered: dict[int, tuple[Tensor, int]] = {}
        self.grad_queries: Tensor | None = None

    # ---- forward

    def site(
        self, ordinal: int, output: Tensor, gain: Tensor, dtype: torch.dtype, backward: bool
    ) -> tuple[operator.Site, list[tuple[int, Tensor]]]:
        """Mix at site `ordinal`; `output` [M, d] is that of the sublayer before it, or the embedding.

        Also the site's logits in pieces, with the first source of each.
        """
        newest, update = output, None
        if self.newest is not None:
            value, scale = self.newest
            if self.joins[ordinal - 1]:
                newest, update = value, output
            else:
                self.values.append(value)
                self.scales.append(scale)
        known, ahead, pieces = 0, None, []
        if self._looked_ahead(ordinal):
            known = self._ahead.sources
            ahead = self._ahead.found.query(ordinal - self._ahead.first)
            pieces.append((0, ahead.logits))
        site = self.kernels.site(
            self.values[known:], self.scales[known:], newest, update, self.query(ordinal), gain, self.epsilon, dtype,
            ahead, backward,
        )  # fmt: skip
        self.newest = site.value, site.scale
        return site, [*pieces, (known, site.logits)]

    def query(self, ordinal: int) -> Tensor:
        return self._each_query[ordinal - 1] if ordinal else torch.zeros_like(self._each_query[0])

    def finish_forward(self, backward: bool) -> None:
        """Let go of what only the forward pass needed."""
        self.newest, self._ahead = None, _NOTHING_AHEAD
        if not (backward and self.kernels.groups_sources):
            self.values, self.scales = [], []

    def _looked_ahead(self, ordinal: int) -> bool:
        if ordinal < self._ahead.last:
            return True
        finished = len(self.values)
        if not self.kernels.two_phase or finished < 2 or self.values[0].numel() < _WORTH_SHARING:
            return False
        size = min(_group_size(finished), self.sites - ordinal)
        if size < 2:
            return False
        found = self.kernels.look_ahead(self.values, self.scales, self.queries[ordinal - 1 : ordinal - 1 + size])
        self._ahead = _Ahead(ordinal, ordinal + size, finished, found)
        return True

    # ---- backward

    def begin_backward(self) -> None:
        """Forget what an earlier backward pass through the same graph has left."""
        task = torch._C._current_graph_task_id()
        if task != self._graph_task:
            self._graph_task = task
            self._records, self._carry, self._gathered = [], None, {}
            self.grad_queries = torch.zeros_like(self.queries)

    def end_backward(self) -> Tensor | None:
        """The gradients of all queries; nothing is kept of the pass."""
        gradients = self.grad_queries
        self._records, self._carry, self._gathered, self.grad_queries = [], None, {}, None
        self.values, self.scales = [], []
        return gradients

    def gather(self, record: _Record, slot: int, value: Tensor, scale: Tensor) -> Tensor:
        """The gradient of the newest source of record's site, which is the last of its consumers to be heard."""
        self._records.append(record)
        ordinal = record.ordinal
        if ordinal < len(self.joins) and self.joins[ordinal]:  # the next output was added to it: this site alone saw it
            grad = self._gather([(value, scale)], [slot], [record], self._carry)[0]
        else:
            carry, heard = self._gathered.pop(slot, (None, 0))
            fresh = self._records[heard:]
            others = self._neighbours(slot, len(fresh)) if carry is None else []
            sources = [(value, scale), *((self.values[other], self.scales[other]) for other in others)]
            grad, *more = self._gather(sources, [slot, *others], fresh, carry)
            self._gathered.update({o: (g, len(self._records)) for o, g in zip(others, more, strict=True)})
        self._carry = grad
        return grad

    def _neighbours(self, slot: int, consumers: int) -> list[int]:
        """The finished sources before `slot` that gather together with it."""
        if not self.kernels.groups_sources or not self.values:
            return []
        return list(range(slot - 1, max(-1, slot - _group_size(consumers)), -1))

    def _gather(
        self, sources: list[tuple[Tensor, Tensor]], slots: list[int], heard: list[_Record], carry: Tensor | None
    ) -> Sequence[Tensor]:
        values, scales = zip(*sources, strict=True)
        rising = heard[::-1]  # records come in falling order of sites
        consumers = [[record.consumes(slot) for record in rising] for slot in slots]
        grads, grad_queries = self.kernels.source_backward(values, scales, consumers, carry)
        if self.grad_queries is not None:  # row l - 1 holds site l; site 0 has no query
            first, last = rising[0].ordinal, rising[-1].ordinal
            self.grad_queries[max(first - 1, 0) : last] += grad_queries[1 if first == 0 else 0 :]
        return grads


_NOTHING_AHEAD = _Ahead(0, 0, 0, Ahead(*[torch.empty(0)] * 4))


# Values of a source from which on sharing its rows is worth a call of its own; fewer stay in a core's cache.
_WORTH_SHARING = 1 << 14


def _group_size(rows: int) -> int:
    """How many neighbours read n rows together.

    In groups of s, each neighbour costs n / s rows that are shared, 2 for the intermediate result, and s / 2 on average
    that only the group has, instead of n: least at s = √(2n). Up to 7 rows it measured no faster.
    """
    return round((2 * rows) ** 0.5) if rows > 7 else 1


class _Queries(torch.autograd.Function):
    """The end of the chain: hands out the gradients of all queries when every site has run."""

    @staticmethod
    def forward(ctx: Any, tape: _Tape, queries: Tensor) -> Tensor:
        ctx.tape = tape
        return queries.new_empty(0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None]:
        return None, ctx.tape.end_backward()


class _DepthSite(torch.autograd.Function):
    """One site. `link` orders the nodes: a site's backward pass waits for all later sites."""

    @staticmethod
    def forward(
        ctx: Any, tape: _Tape, ordinal: int, link: Tensor, output: Tensor, gain: Tensor
    ) -> tuple[Tensor, Tensor]:
        shape = output.shape
        backward = any(ctx.needs_input_grad)
        site, pieces = tape.site(ordinal, flat_rows(output), gain, output_dtype(output, gain), backward)
        normed = site.normed
        if backward:
            ctx.tape, ctx.ordinal, ctx.slot = tape, ordinal, len(tape.values)
            ctx.kept_is_output, ctx.dtype = normed.kept is normed.output, output.dtype
            ctx.first_sources = [first for first, _ in pieces]
            ctx.save_for_backward(
                site.value, site.scale, normed.kept, normed.inverse_rms, gain, tape.query(ordinal), site.log_total,
                *(logits for _, logits in pieces),
            )  # fmt: skip
        if ordinal == len(tape.joins):
            tape.finish_forward(backward)
        return normed.output.view(shape), link.new_empty(0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        value, scale, kept, inverse_rms, gain, query, log_total, *logits = ctx.saved_tensors
        tape: _Tape = ctx.tape
        tape.begin_backward()
        normed = Normed(kept if ctx.kept_is_output else grad, kept, inverse_rms)
        grad_mixed, dot, grad_gain = tape.kernels.norm_backward(flat_rows(grad), normed, gain, tape.epsilon, None)
        pieces = list(zip(ctx.first_sources, logits, strict=True))
        record = _Record(ctx.ordinal, grad_mixed, dot, query, log_total, pieces)
        grad_value = tape.gather(record, ctx.slot, value, scale)
        return None, None, None, grad_value.to(ctx.dtype).view(grad.shape), grad_gain
