"""What `walk` makes of its sources: Eq. 1 or 5-6 over the module's own `mix`, or which known wrong way explains it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from attnres_cli.errors import UserError
from attnres_cli.verify.bookkeeping import (
    EDGES,
    EMBEDDING,
    EMPTY,
    FLOW,
    OUTPUT,
    PARTIAL,
    RESET,
    SUMS,
    Walk,
    WalkFault,
    walks,
)  # fmt: skip
from attnres_cli.verify.candidate import D_MODEL, NUM_SUBLAYERS, Candidate
from attnres_cli.verify.depth import deviation
from attnres_cli.verify.finding import Finding, judged, skipped, within
from attnres_cli.verify.identified import SHAPE, Examined, normal, stir

ORDER = 50
TITLE = "sources"

ONCE, WHOLE, CAUSAL = "every sublayer runs once, in order", "equals Eq. 1 and 5-6", "no token sees a later one"
NAMED = (EMBEDDING, EDGES, RESET, SUMS, PARTIAL, EMPTY, OUTPUT)
CHANGED = 3
# Gradients go back through norms of sources that are small.
GROWTH = 100.0


class Sublayers:
    """NUM_SUBLAYERS causal functions [B, T, d] → [B, T, d] with their norm inside; remembers what they were given."""

    def __init__(self) -> None:
        self.called: list[int] = []
        self.seen: list[Tensor] = []
        self.functions = [self._function(ordinal) for ordinal in range(NUM_SUBLAYERS)]

    def _function(self, ordinal: int) -> Callable[[Tensor], Tensor]:
        matrix = normal(D_MODEL, D_MODEL, seed=200 + ordinal) / D_MODEL**0.5

        def apply(x: Tensor) -> Tensor:
            self.called.append(ordinal)
            self.seen.append(x.detach().double())
            normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-12)
            earlier = normed.cumsum(1) / torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None]
            return torch.tanh((normed + earlier) @ matrix.to(x.dtype)) * (1 + ordinal % 3)

        return apply


def check(examined: Examined) -> Iterator[Finding]:
    candidate = examined.candidate
    if not candidate.has_walk:
        yield from (skipped(name, "the class has no walk()") for name in (ONCE, WHOLE, *NAMED, FLOW, CAUSAL))
        return
    stir(candidate)
    embedding = normal(*SHAPE, seed=31).requires_grad_()
    ours = Sublayers()
    closed = candidate.walk(embedding, ours.functions)
    in_order = ours.called == list(range(NUM_SUBLAYERS))
    yield judged(ONCE, in_order, detail=f"called were {ours.called}")
    if in_order:
        yield from _compared(examined, embedding, ours.seen, closed)
    else:
        yield from (skipped(name, "sublayers are not run in order") for name in (WHOLE, *NAMED, FLOW))
    yield _causal(candidate, embedding, closed, examined.identified.tolerance)


def _compared(examined: Examined, embedding: Tensor, seen: Sequence[Tensor], closed: Tensor) -> Iterator[Finding]:
    candidate, tolerance = examined.candidate, examined.identified.tolerance * 10  # eight sites pass rounding on
    apart, faults, walk = _explained(candidate, embedding, seen, closed, tolerance)
    told = {fault.breaks: fault.told for fault in faults}
    yield within(
        WHOLE, apart, tolerance,
        detail="; ".join(told.values()) or "its sources are others than the paper's in no way that is known here",
    )  # fmt: skip
    for name in NAMED:
        if walk is None:
            yield skipped(name, "not told apart: no known way of keeping sources explains the results")
        else:
            yield Finding(name, "fails" if name in told else "ok", detail=told.get(name))
    yield _flow(candidate, embedding, closed, walk, tolerance)


@torch.no_grad()
def _explained(
    candidate: Candidate, embedding: Tensor, seen: Sequence[Tensor], closed: Tensor, tolerance: float
) -> tuple[float, tuple[WalkFault, ...], Walk | None]:
    """(deviation from the paper's walk, faults of the walk that explains the results, that walk or None)."""
    first: float | None = None
    for faults, walk in walks():
        apart = _apart(candidate, walk, embedding, [*seen, closed.double()])
        first = apart if first is None else first
        if apart <= tolerance:
            return first, faults, walk
    assert first is not None
    return first, (), None


def _apart(candidate: Candidate, walk: Walk, embedding: Tensor, results: Sequence[Tensor]) -> float:
    """How far this walk is from `results`, what every sublayer saw and the end; infinite where `mix` cannot
    do it, such as at an output site that it lacks."""
    theirs = Sublayers()
    try:
        end = walk.run(candidate.mix, embedding, theirs.functions, candidate.sizes).double()
    except UserError:
        return float("inf")
    return max(deviation(x, y) for x, y in zip(results, [*theirs.seen, end], strict=True))


def _flow(candidate: Candidate, embedding: Tensor, closed: Tensor, walk: Walk | None, tolerance: float) -> Finding:
    """The gradient that reaches the embedding, against that of the walk which explains the results."""
    if not closed.requires_grad:
        return judged(FLOW, False, detail="no gradient reaches the embedding")
    weights = normal(*SHAPE, seed=32)
    (found,) = torch.autograd.grad((closed.double() * weights).sum(), embedding, allow_unused=True)
    if found is None or not found.any():
        return judged(FLOW, False, detail="no gradient reaches the embedding")
    if walk is None:
        return skipped(FLOW, "not told apart: no known way of keeping sources explains the results")
    end = walk.run(candidate.mix, embedding, Sublayers().functions, candidate.sizes)
    (expected,) = torch.autograd.grad((end.double() * weights).sum(), embedding)
    return within(
        FLOW, deviation(found, expected), GROWTH * tolerance,
        detail="the gradient to the embedding is another: a sum or a source is detached",
    )  # fmt: skip


@torch.no_grad()
def _causal(candidate: Candidate, embedding: Tensor, closed: Tensor, tolerance: float) -> Finding:
    other = embedding.detach().clone()
    other[:, CHANGED:] = normal(SHAPE[0], SHAPE[1] - CHANGED, D_MODEL, seed=33)
    after = candidate.walk(other, Sublayers().functions)
    return within(
        CAUSAL, deviation(after[:, :CHANGED].double(), closed[:, :CHANGED].double()), 10 * tolerance,
        detail=f"a change from token {CHANGED} on reaches earlier tokens",
    )  # fmt: skip
