"""What a module starts from: a query of zeros for every site, each site its own, and one for the output site."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from attnres_cli.verify.candidate import NUM_SUBLAYERS
from attnres_cli.verify.finding import Finding, judged, skipped, within
from attnres_cli.verify.identified import Examined, stir

ORDER = 10
TITLE = "start"

ZERO, APART, OUTPUT = "queries start at zero", "sites share no query", "the output site has a query"


def check(examined: Examined) -> Iterator[Finding]:
    candidate = examined.candidate
    largest = [float(query.abs().max()) for query in candidate.first_queries]
    yield within(
        ZERO, max(largest), 0.0,
        detail=f"the query of site {largest.index(max(largest))} is not zero when training starts; softmax then does "
        "not begin as a mean (paper §5)",
    )  # fmt: skip
    yield _apart(examined, "queries", APART)
    if candidate.has_gains:
        yield _apart(examined, "key_gains", "sites share no gain")
    else:
        yield skipped("sites share no gain", "the class has no key_gains()")
    yield judged(
        OUTPUT, len(largest) == NUM_SUBLAYERS + 1,
        detail=f"queries() gives {len(largest)}: {NUM_SUBLAYERS} sublayers and no output site (paper §3.2)",
    )  # fmt: skip


def _apart(examined: Examined, name: str, aspect: str) -> Finding:
    """Whether what was written to every site is read back from it."""
    candidate = examined.candidate
    written = dict(zip(("queries", "key_gains"), stir(candidate), strict=True))[name]
    assert written is not None
    vectors = candidate.queries() if name == "queries" else candidate.key_gains()
    held = torch.stack([vector.detach().flatten() for vector in vectors])
    wrong = [site for site in range(len(held)) if not torch.equal(held[site], written[site].to(held.dtype))]
    if not wrong:
        return judged(aspect, True)
    site = wrong[0]
    same = [
        other for other in range(len(held)) if other != site and torch.equal(held[site], written[other].to(held.dtype))
    ]
    if same:
        return judged(aspect, False, detail=f"sites {site} and {same[0]} share one vector: {name}() gives it twice")
    return judged(aspect, False, detail=f"{name}() gives copies: writing to them does not reach the module")
