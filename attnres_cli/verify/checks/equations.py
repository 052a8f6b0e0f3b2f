"""Full against Eq. 1-4 and Block against Eq. 5-6: what every site mixes and with which weights, step by step and fused,
against a slow loop written from the paper (verify/equations.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.verify import equations
from attnres_cli.verify.depth import deviation, queries_and_gains, recorded, sizes_of, sources_of, why_not_plain
from attnres_cli.verify.equations import Function, Rows
from attnres_cli.verify.finding import Finding, skipped, within
from attnres_cli.verify.subjects import Subject, random_tokens

ORDER = 20
TITLE = "equations"

# Ten sublayers that differ by rounding at 1e-16 each and amplify it by less than ten; a fault shows at 1e-3 and more.
AGREEMENT = 1e-11
SHAPE = (2, 4)
ASPECTS = ("inputs of every sublayer", "weights of every site", "output, step by step", "output, fused")


def check(subjects: Sequence[Subject]) -> Iterator[Finding]:
    for subject in subjects:
        reason = why_not_plain(subject)
        if reason is not None:
            yield from (skipped(aspect, reason, subject=subject.name) for aspect in ASPECTS)
            continue
        yield from _held_against_the_paper(subject)


def _held_against_the_paper(subject: Subject) -> Iterator[Finding]:
    model = subject.model(stir=0.4)
    tokens, _ = random_tokens(*SHAPE)
    sizes = sizes_of(subject)
    is_full = max(sizes) == 1
    equation = "Eq. 1-4" if is_full else f"Eq. 5-6 with blocks of {', '.join(map(str, sizes))}"
    mixtures, alphas = by_the_paper(model, tokens, sizes)
    watcher = recorded(model, tokens)
    norms = [site.norm for site in model.sites()]
    with torch.no_grad():
        expected = [norm(mixed) for norm, mixed in zip([*norms, model.final_norm], mixtures, strict=True)]
        fused = model.walk(tokens)
    told = f"it departs from {equation}"
    apart = [deviation(x, y) for x, y in zip(watcher.seen, expected[:-1], strict=True)]
    yield within(
        ASPECTS[0], max(apart), AGREEMENT, subject=subject.name, detail=f"{told}, first at sublayer {_first(apart)}"
    )
    apart = [_weights_apart(model, watcher.states[site], site, alpha) for site, alpha in enumerate(alphas)]
    yield within(
        ASPECTS[1], max(apart), AGREEMENT, subject=subject.name, detail=f"{told}, first at site {_first(apart)}"
    )
    assert watcher.closed is not None
    yield within(ASPECTS[2], deviation(watcher.closed, expected[-1]), AGREEMENT, subject=subject.name, detail=told)
    yield within(ASPECTS[3], deviation(fused, expected[-1]), AGREEMENT, subject=subject.name, detail=told)


def _first(apart: list[float]) -> int:
    """The first site whose deviation is not within the limit, counted from 1; the last one where there is none."""
    return next((site for site, each in enumerate(apart, 1) if not each <= AGREEMENT), len(apart))


def _weights_apart(model: LanguageModel, state: tuple[Tensor, ...], site: int, alpha: Tensor) -> float:
    weights = sources_of(model, state, site)[1]
    return deviation(weights, alpha) if weights.shape == alpha.shape else float("inf")


@torch.no_grad()
def by_the_paper(model: LanguageModel, tokens: Tensor, sizes: list[int]) -> tuple[list[Tensor], list[Tensor]]:
    """What every site mixes, [B, T, d], and its weights, [sources, B, T], by the slow loop."""
    shape = (*tokens.shape, model.config.d_model)

    def tensor(rows: Rows) -> Tensor:
        return torch.tensor(rows, dtype=torch.float64).view(shape)

    def function(sublayer: torch.nn.Module, gain: list[float]) -> Function:
        def apply(h: Rows) -> Rows:
            x = tensor([equations.rms_norm(row, gain, model.config.norm_epsilon) for row in h])
            rows: Rows = sublayer(x).flatten(0, 1).tolist()
            return rows

        return apply

    sublayers = []
    for module in model.blocks:
        for kind in ("attention", "feed_forward"):
            gain = module.get_submodule(f"{kind}_norm").get_parameter("gain").tolist()
            sublayers.append(function(module.get_submodule(kind), gain))
    queries, gains = queries_and_gains(model)
    embedding: Rows = model.embedding(tokens).flatten(0, 1).tolist()
    # Blocks of one sublayer are Full (§3.2), and are written down as Eq. 1-4.
    if max(sizes) == 1:
        mixed, alphas = equations.full(embedding, sublayers, queries, gains, model.config.norm_epsilon)
    else:
        mixed, alphas = equations.block(embedding, sublayers, queries, gains, model.config.norm_epsilon, sizes)
    weights = [torch.tensor(alpha, dtype=torch.float64).T.reshape(-1, *tokens.shape) for alpha in alphas]
    return [tensor(rows) for rows in mixed], weights
