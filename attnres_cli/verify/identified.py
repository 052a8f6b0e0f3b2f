"""Which recipe a user's `mix` follows: the first one whose results it gives, at every site that is tried."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attnres_cli.verify.candidate import D_MODEL, NUM_SUBLAYERS, Candidate
from attnres_cli.verify.depth import deviation
from attnres_cli.verify.recipes import Fault, Recipe, recipes

# A module that computes in float64 agrees to rounding; one that casts to float32 inside, as released code does, to
# float32's 6e-8 times the size of its logits (some tens).
EXACT, SINGLE = 1e-10, 3e-5
# Of key norms in the wild. float32's and float64's own are what torch's RMSNorm takes where none is given.
EPSILONS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-5, torch.finfo(torch.float32).eps, torch.finfo(torch.float64).eps)
# Sites that are tried: in the first and second half of a transformer block, and the output site.
SITES = (1, 4, 7, NUM_SUBLAYERS)
SHAPE = (2, 5, D_MODEL)


@dataclass(frozen=True)
class Identified:
    """What explains a module's results. queries: site → whose query it uses; None where no recipe explains them.

    exact: whether it computes in float64. apart: the deviation from the paper's own recipe.
    """

    recipe: Recipe | None
    faults: tuple[Fault, ...]
    queries: dict[int, int]
    epsilon: float
    exact: bool
    apart: float

    @property
    def tolerance(self) -> float:
        return EXACT if self.exact else SINGLE


@dataclass(frozen=True)
class Trial:
    """Sources [n, ...] that a site mixes, and what the module made of them."""

    site: int
    sources: Tensor
    mixed: Tensor


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sources_for(site: int) -> Tensor:
    """[n, B, T, d], of different sizes, two of them small enough for an epsilon to show."""
    sizes = torch.tensor([1.0, 3.0, 0.02, 0.5, 0.1])[:, None, None, None]
    return normal(2 + site % 4, *SHAPE, seed=site) * sizes[: 2 + site % 4]


def stir(candidate: Candidate) -> tuple[Tensor, Tensor | None]:
    """Give every site another query (logits of a few units) and another gain; returns both, [sites, d]."""
    queries = normal(len(candidate.queries()), D_MODEL, seed=101) * 0.6
    candidate.set_vectors("queries", queries)
    if not candidate.has_gains:
        return queries, None
    gains = 1 + 0.5 * normal(len(candidate.key_gains()), D_MODEL, seed=102)
    candidate.set_vectors("key_gains", gains)
    return queries, gains


@torch.no_grad()
def identify(candidate: Candidate) -> Identified:
    """Stirs the module's queries and gains, and looks for what explains its results."""
    stir(candidate)
    # As they are now: where sites share a vector, they hold the last one written.
    queries = torch.stack([each.detach().flatten() for each in candidate.queries()])
    gains = torch.stack([each.detach().flatten() for each in candidate.key_gains()]) if candidate.has_gains else None
    sites = [site for site in SITES if site < len(queries)]
    trials = [Trial(site, x := sources_for(site), candidate.mix(x.unbind(0), site).double()) for site in sites]
    declared = candidate.epsilon
    epsilons = EPSILONS if declared is None else (declared,)
    paper = Recipe()
    apart, epsilon = min(
        (max(deviation(t.mixed, paper.mix(t.sources, queries, gains, each)[t.site]) for t in trials), each)
        for each in epsilons
    )
    for limit in (EXACT, SINGLE):
        for faults, recipe in recipes(candidate.has_gains):
            for each in epsilons:
                used = _queries_used(recipe, trials, queries, gains, each, limit)
                if used is not None:
                    return Identified(recipe, faults, used, each, limit == EXACT, apart)
    return Identified(None, (), {}, epsilon, False, apart)


def _queries_used(
    recipe: Recipe, trials: list[Trial], queries: Tensor, gains: Tensor | None, epsilon: float, limit: float
) -> dict[int, int] | None:
    """Site → whose query explains its result, its own where that does; None where some site has no such query."""
    used = {}
    for trial in trials:
        results = [recipe.mix(trial.sources, queries, gains, epsilon)]
        if gains is not None:  # another site's query beside the site's own gain
            results.append(recipe.mix(trial.sources, queries, gains[trial.site].expand_as(gains), epsilon))
        # Its own site first, so that a recipe without queries is not taken for one that confuses them.
        order = sorted(range(len(queries)), key=lambda site: site != trial.site)
        near = (s for mixed in results for s in order if deviation(trial.mixed, mixed[s]) <= limit)
        found = next(near, None)
        if found is None:
            return None
        used[trial.site] = found
    return used


class Examined:
    """A module with what was found out about it; checks of properties share it."""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate

    @cached_property
    def identified(self) -> Identified:
        return identify(self.candidate)

    @cached_property
    @torch.no_grad()
    def is_coarse(self) -> bool:
        """Whether most results do not even move when every query grows by a millionth: logits or weights are rounded to
        half precision somewhere."""
        queries, _ = stir(self.candidate)
        sources = sources_for(SITES[2]).unbind(0)
        before = self.candidate.mix(sources, SITES[2])
        self.candidate.set_vectors("queries", queries * (1 + 1e-6))
        after = self.candidate.mix(sources, SITES[2])
        return bool((before == after).all(-1).double().mean() > 0.5)
