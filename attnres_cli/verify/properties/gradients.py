"""Whether a gradient flows to values, keys, queries and gains through `mix`, and whether it is the right one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import torch
from torch import Tensor

from attnres_cli.verify.depth import deviation
from attnres_cli.verify.finding import Finding, judged, skipped
from attnres_cli.verify.identified import SITES, Examined, normal, sources_for, stir

ORDER = 30
TITLE = "gradients"

SITE = SITES[1]
# Gradients divide by the rms of the smallest source, 0.02 of the largest.
GROWTH = 100.0
STOPPABLE = {
    "values": ("gradient to the values", "the sources are detached where they are summed up"),
    "keys": ("gradient to the keys", "the sources are detached where they become keys"),
    "queries": ("gradient to the queries", "no gradient reaches the query"),
}
Gradients = tuple[Tensor, Tensor | None, Tensor | None]


def check(examined: Examined) -> Iterator[Finding]:
    found = _of_module(examined)
    stopped = _explained(examined, found)
    if stopped is not None:
        yield from (judged(aspect, kind not in stopped, detail=told) for kind, (aspect, told) in STOPPABLE.items())
    else:
        sources, query, _ = found
        told = "its gradients are not those of what it computes, and no known fault explains them"
        alive = {"values": bool(sources.any()), "queries": query is not None and bool(query.any())}
        if examined.identified.recipe is not None:
            yield judged("gradients are those of what it computes", False, detail=told)
        else:
            yield from (judged(STOPPABLE[k][0], alive[k], detail=STOPPABLE[k][1]) for k in ("values", "queries"))
            yield skipped(STOPPABLE["keys"][0], "not told apart: no known way of mixing explains the results")
    if examined.candidate.has_gains:
        yield judged("gradient to the gains", found[2] is not None and bool(found[2].any()), detail="it gets none")
    else:
        yield skipped("gradient to the gains", "the class has no key_gains()")


def _weights(like: Tensor) -> Tensor:
    return normal(*like.shape, seed=5).to(like.dtype)


def _of_module(examined: Examined) -> Gradients:
    """Of a weighted sum of what `mix` gives: to the stacked sources, the site's query, and its gain."""
    candidate = examined.candidate
    stir(candidate)
    sources = sources_for(SITE).requires_grad_()
    mixed = candidate.mix(sources.unbind(0), SITE)
    vectors = [candidate.queries()[SITE], *([candidate.key_gains()[SITE]] if candidate.has_gains else [])]
    if not mixed.requires_grad:
        return torch.zeros_like(sources), None, None
    leaves = [_leaf(vector) for vector in vectors]
    wanted = [sources, *(leaf for leaf in leaves if leaf.requires_grad)]
    taken = iter(torch.autograd.grad((mixed * _weights(mixed)).sum(), wanted, allow_unused=True))
    to_sources = next(taken)
    rest = [
        _row(vector, next(taken)) if leaf.requires_grad else None for vector, leaf in zip(vectors, leaves, strict=True)
    ]
    return torch.zeros_like(sources) if to_sources is None else to_sources, rest[0], rest[1] if rest[1:] else None


def _leaf(vector: Tensor) -> Tensor:
    """The parameter itself, where the vector is a view of one."""
    return vector if vector._base is None else vector._base


def _row(vector: Tensor, gradient: Tensor | None) -> Tensor | None:
    """The part of its parameter's gradient that belongs to the vector, [d]."""
    if gradient is None or vector._base is None:
        return None if gradient is None else gradient.flatten()
    first = vector.storage_offset() - vector._base.storage_offset()
    return gradient.contiguous().flatten()[first : first + vector.numel()]


def _explained(examined: Examined, found: Gradients) -> frozenset[str] | None:
    """What has to be detached in the identified recipe for its gradients to be the module's; None: nothing explains
    them."""
    identified = examined.identified
    if identified.recipe is None:
        return None
    for count in range(len(STOPPABLE) + 1):
        for stopped in combinations(STOPPABLE, count):
            expected = _of_recipe(examined, frozenset(stopped))
            if _near(found[0], expected[0], identified.tolerance) and _near(
                found[1], expected[1], identified.tolerance
            ):
                return frozenset(stopped)
    return None


def _of_recipe(examined: Examined, stopped: frozenset[str]) -> Gradients:
    identified, candidate = examined.identified, examined.candidate
    assert identified.recipe is not None
    used = identified.queries.get(SITE, SITE)
    sources = sources_for(SITE).requires_grad_()
    query = candidate.queries()[used].detach().double().view(1, -1).clone().requires_grad_()
    gains = candidate.key_gains()[used].detach().double().view(1, -1) if candidate.has_gains else None
    mixed = replace(identified.recipe, stopped=stopped).mix(sources, query, gains, identified.epsilon)[0]
    if not mixed.requires_grad:
        return torch.zeros_like(sources), None, None
    total = (mixed * _weights(mixed)).sum()
    to_sources, to_query = torch.autograd.grad(total, [sources, query], allow_unused=True)
    to_sources = torch.zeros_like(sources) if to_sources is None else to_sources
    return to_sources, to_query[0] if to_query is not None and used == SITE else None, None


def _near(found: Tensor | None, expected: Tensor | None, tolerance: float) -> bool:
    nothing = [each is None or not bool(each.any()) for each in (found, expected)]
    if any(nothing):
        return all(nothing)
    assert found is not None
    assert expected is not None
    return deviation(found.double(), expected) <= GROWTH * tolerance
