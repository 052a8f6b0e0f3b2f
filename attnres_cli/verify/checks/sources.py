"""What is mixed: how many sources every sublayer has, none of them twice and none of them empty, and all of them
together the stream of a plain residual."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from attnres_cli.verify.depth import deviation, recorded, sizes_of, sources_of, why_not_plain
from attnres_cli.verify.equations import source_counts
from attnres_cli.verify.finding import Finding, judged, skipped, within
from attnres_cli.verify.subjects import Subject, random_tokens

ORDER = 30
TITLE = "sources"

AGREEMENT = 1e-12
COUNTS = "sources per sublayer"
DISTINCT = "no source twice, none empty"
SUM = "sources sum to the plain stream"


def check(subjects: Sequence[Subject]) -> Iterator[Finding]:
    for subject in subjects:
        reason = why_not_plain(subject)
        if reason is not None:
            yield from (skipped(aspect, reason, subject=subject.name) for aspect in (COUNTS, DISTINCT, SUM))
            continue
        yield from _of(subject)


def _of(subject: Subject) -> Iterator[Finding]:
    model = subject.model(stir=0.4)
    tokens, _ = random_tokens(2, 6)
    watcher = recorded(model, tokens)
    sources = [sources_of(model, state, site)[0] for site, state in enumerate(watcher.states)]
    counts, expected = [len(each) for each in sources], source_counts(sizes_of(subject))
    told = f"{_listed(counts)} instead of {_listed(expected)}, output site last"
    yield judged(COUNTS, counts == expected, subject=subject.name, detail=told, ok=f"{_listed(counts)}, output last")
    faults = [fault for site, each in enumerate(sources, 1) if (fault := _fault(each, site))]
    yield judged(DISTINCT, not faults, subject=subject.name, detail=faults[0] if faults else None)
    with torch.no_grad():
        stream = model.embedding(tokens) + torch.stack(watcher.outputs).sum(0)
    yield within(
        SUM, deviation(torch.stack(sources[-1]).sum(0), stream), AGREEMENT, subject=subject.name,
        detail="at the output site the sources do not add up to embedding and outputs: lost, doubled, or cumulative",
    )  # fmt: skip


def _fault(sources: Sequence[Tensor], site: int) -> str | None:
    for i, one in enumerate(sources):
        if not one.any():
            return f"source {i} of sublayer {site} is all zero"
        for j in range(i):
            if torch.equal(one, sources[j]):
                return f"sources {j} and {i} of sublayer {site} are the same"
    return None


def _listed(counts: Sequence[int]) -> str:
    return " ".join(map(str, counts))
