"""A table of claims: what each test gives, which of them a design can decide at all, and what may be said of each.

Every claim is tested in both directions, and all tests of a table are corrected together (Holm):

    confirmed             the effect lies where the claim says, corrected p below 5 %
    contradicted          it lies on the other side, corrected p below 5 %
    not shown             there are enough runs, and neither is shown
    needs larger scale    not tested: a power calculation made before any run says that this design would miss the
                          effect too often (`decidable`)

What stands before a claim is decided is its own outcome: "not finished", "too few".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from attnres_cli.analysis.multiple import holm
from attnres_cli.analysis.paired import FEWEST_PAIRS, mean_interval, paired_difference
from attnres_cli.analysis.power import power_of

ALPHA = 0.05
WANTED_POWER = 0.8
Expected = Literal["below", "above", "within"]
Outcome = Literal["confirmed", "contradicted", "not shown", "needs larger scale", "not finished", "too few"]


@dataclass(frozen=True)
class Finding:
    """What one test gives. estimate: in the claim's unit, with its 95 % interval. p: of the side on which the estimate
    lies, two-sided. supports: whether that side is the claim's. n: pairs (of seeds, or of rounds of a bench). words:
    the estimate, where it takes more than a number."""

    estimate: float
    low: float | None
    high: float | None
    p: float
    supports: bool
    n: int
    words: str = ""


def judge_mean(values: Sequence[float], expected: Expected, bound: float) -> Finding | None:
    """Is the mean of `values` (one per seed) below, above, or within ±`bound`? Student's t; None below three seeds.

    Within: two one-sided tests (Schuirmann 1987) where the mean lies inside, and a one-sided test of the nearer bound
    where it lies outside; each is made at alpha, and on a bound at most one of them can reject.
    """
    if len(values) < FEWEST_PAIRS:
        return None
    mean, low, high = mean_interval(values)
    if expected == "within":
        p, supports = _inside(values, mean, bound)
    else:
        p = paired_difference(values, [bound] * len(values)).p
        supports = mean < bound if expected == "below" else mean > bound
    return Finding(mean, low, high, p, supports, len(values))


def judge_median(ratios: Sequence[float], bound: float, interval: tuple[float, float, float]) -> Finding:
    """Is the median of paired ratios below `bound`? The sign test: exact whatever the distribution.

    interval: (median, low, high) of the same ratios.
    """
    from scipy.special import bdtr

    below = sum(ratio < bound for ratio in ratios)
    above = sum(ratio > bound for ratio in ratios)
    n = below + above  # rounds on the bound itself say nothing
    p = min(1.0, 2.0 * float(bdtr(min(below, above), n, 0.5))) if n else 1.0
    median, low, high = interval
    return Finding(median, low, high, p, below > above, len(ratios))


def outcomes(findings: Mapping[str, Finding | None]) -> dict[str, tuple[Outcome, float | None]]:
    """Claim → (outcome, corrected p), over all findings of the table; a claim without one is "too few"."""
    tested = [key for key, finding in findings.items() if finding is not None]
    corrected = dict(zip(tested, holm([_p(findings[key]) for key in tested]), strict=True))
    found: dict[str, tuple[Outcome, float | None]] = {}
    for key, finding in findings.items():
        if finding is None:
            found[key] = ("too few", None)
        elif corrected[key] >= ALPHA:
            found[key] = ("not shown", corrected[key])
        else:
            found[key] = ("confirmed" if finding.supports else "contradicted", corrected[key])
    return found


# ------------------------------------------------------------------ before any run


class Design(Protocol):
    """A test with what is assumed of its outcome."""

    def power(self, alpha: float) -> float:
        """The probability of p below alpha, two-sided."""


@dataclass(frozen=True)
class AssumedRounds:
    """A sign test over the rounds of a bench. effect: of the ratios' median from the bound, standard_deviation: of
    single rounds, both of logarithms. n: rounds."""

    effect: float
    standard_deviation: float
    n: int

    def power(self, alpha: float) -> float:
        """How often so many rounds lie on the effect's side of the bound that the exact test rejects."""
        from scipy.special import bdtr, ndtr

        rejects = [fewer for fewer in range(self.n // 2 + 1) if 2.0 * float(bdtr(fewer, self.n, 0.5)) < alpha]
        other_side = float(ndtr(-abs(self.effect) / self.standard_deviation))
        return float(bdtr(max(rejects), self.n, other_side)) if rejects else 0.0


@dataclass(frozen=True)
class Assumed:
    """What a power calculation takes for granted. effect: of the values' mean, from the bound in question (for within:
    the bound itself, at a true mean of zero). standard_deviation: of the values over seeds. n: seeds."""

    effect: float
    standard_deviation: float
    n: int
    within: bool = False

    def power(self, alpha: float) -> float:
        if self.within:
            return _power_within(self.effect, self.standard_deviation, self.n, alpha)
        return power_of(self.effect, self.standard_deviation, self.n, alpha=alpha)


def decidable(assumed: Mapping[str, Design], *, certain: int = 0) -> dict[str, tuple[bool, float]]:
    """Claim → (whether the design decides it, its power).

    The more claims are tested, the stricter each test (alpha over their number, which Holm never falls below), so the
    weakest is left out until every one that remains has WANTED_POWER. certain: tests that are made in any case, since
    nothing is assumed of them. The
    power of a claim that is left out is the one for which it was.
    """
    kept = dict(assumed)
    found: dict[str, tuple[bool, float]] = {}
    while kept:
        alpha = ALPHA / (len(kept) + certain)
        powers = {key: each.power(alpha) for key, each in kept.items()}
        weakest = min(powers, key=lambda key: powers[key])
        if powers[weakest] >= WANTED_POWER:
            return {key: found.get(key, (True, powers.get(key, 0.0))) for key in assumed}
        found[weakest] = (False, powers[weakest])
        del kept[weakest]
    return {key: found[key] for key in assumed}


# ------------------------------------------------------------------ equality


def _inside(values: Sequence[float], mean: float, bound: float) -> tuple[float, bool]:
    """(one-sided p, whether the mean lies inside ±bound)"""
    from scipy.special import stdtr

    inside = abs(mean) < bound
    deviation = paired_difference(values, [0.0] * len(values)).standard_error
    if deviation == 0.0:
        return 0.0, inside
    t = (bound - abs(mean)) / deviation
    p = float(stdtr(len(values) - 1, -abs(t)))
    return p, inside


def _power_within(bound: float, standard_deviation: float, n: int, alpha: float) -> float:
    """Power of two one-sided tests at a true mean of zero: 2 P(T > t) − 1 with the noncentral t of one of them, never
    below zero (Phillips 1990, as an approximation that errs on the low side)."""
    if standard_deviation == 0.0:
        return 1.0
    # A one-sided test at alpha is a two-sided one at 2 alpha, less the tail on the wrong side, which is negligible.
    one_sided = power_of(bound, standard_deviation, n, alpha=min(0.999, 2 * alpha))
    return max(0.0, 2.0 * one_sided - 1.0)


def _p(finding: Finding | None) -> float:
    assert finding is not None
    return finding.p if math.isfinite(finding.p) else 1.0
