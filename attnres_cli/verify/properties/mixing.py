"""What `mix` computes: Eq. 2-4, or which known wrong way explains it exactly."""

from __future__ import annotations

from collections.abc import Iterator

from attnres_cli.verify.finding import Finding, shown, skipped, within
from attnres_cli.verify.identified import EXACT, SINGLE, Examined, Identified
from attnres_cli.verify.recipes import GAIN, KEYS, PRECISION, QUERY, SCALE, SOFTMAX, VALUES

ORDER = 20
TITLE = "mixing"

WHOLE = "equals Eq. 2-4"
NAMED = (QUERY, KEYS, GAIN, SCALE, SOFTMAX, VALUES)
LARGE_EPSILON = 1e-6


def check(examined: Examined) -> Iterator[Finding]:
    found = examined.identified
    faults = _faults(found)
    allowed = SINGLE if found.recipe is None else found.tolerance
    if found.recipe is None and examined.is_coarse:
        yield from (_named(name, None, examined) for name in NAMED)
        told = "logits, softmax or sum are taken in half precision although the sources are not"
        yield within(PRECISION, found.apart, EXACT, detail=told)
        return
    told = "; ".join(faults.values()) or "it departs from the paper in no way that is known here"
    yield within(WHOLE, found.apart, allowed, detail=told)
    for name in NAMED:
        if found.recipe is None:
            yield skipped(name, "not told apart: no known way of mixing explains the results")
        else:
            yield _named(name, faults.get(name), examined)
    if found.recipe is not None:
        yield shown("epsilon of the key norm", found.epsilon, detail=_about(found.epsilon))


def _named(name: str, fault: str | None, examined: Examined) -> Finding:
    if name == GAIN and not examined.candidate.has_gains:
        return skipped(name, "the class has no key_gains()")
    return Finding(name, "ok" if fault is None else "fails", detail=fault)


def _faults(found: Identified) -> dict[str, str]:
    """Property → what is wrong with it."""
    faults = {fault.breaks: fault.told for fault in found.faults}
    confused = {site: used for site, used in found.queries.items() if site != used}
    if confused:
        site, used = next(iter(confused.items()))
        faults[QUERY] = f"site {site} mixes with the query of site {used}"
    return faults


def _about(epsilon: float) -> str | None:
    if epsilon < LARGE_EPSILON:
        return None
    return "it shortens the keys of small sources, and the start equals a plain residual less closely"
