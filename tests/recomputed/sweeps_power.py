"""The power of the tests of a reproduction's plan, and which of them it decides, by docs/reproduction.md."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from scipy import stats

from tests.recomputed.sweeps_figures import is_ratio

LEVEL = 0.05
WANTED_POWER = 0.8
Claim = Mapping[str, Any]


def power(effect: float, spread: float, n: int, level: float) -> float:
    """Of a two-sided t-test of n pairs: the tails of the noncentral t beyond the critical value."""
    critical, shift = stats.t.ppf(1 - level / 2, n - 1), abs(effect) * math.sqrt(n) / spread
    tails = stats.nct.sf(critical, n - 1, shift), stats.nct.cdf(-critical, n - 1, shift)
    return float(sum(tail for tail in tails if not math.isnan(tail)))  # scipy's cdf is nan where the tail is empty


def before(plan: Mapping[str, Any]) -> dict[str, tuple[bool, float | None]]:
    """Claim → (whether it is tested, its power). The weakest is left out until every one that remains has 80 % at 5 %
    over the number of tests; those of which nothing is assumed are made in any case."""
    assumed = {claim["key"]: claim for claim in plan["claims"] if "assumed" in claim}
    certain = len(plan["claims"]) - len(assumed)
    found: dict[str, tuple[bool, float | None]] = {each["key"]: (True, None) for each in plan["claims"]}
    kept = dict(assumed)
    while kept:
        level = LEVEL / (len(kept) + certain)
        powers = {key: _power(claim, plan, level) for key, claim in kept.items()}
        weakest = min(powers, key=lambda key: powers[key])
        if powers[weakest] >= WANTED_POWER:
            found |= {key: (True, each) for key, each in powers.items()}
            break
        found[weakest] = (False, powers[weakest])
        del kept[weakest]
    return found


def _power(claim: Claim, plan: Mapping[str, Any], level: float) -> float:
    n, prior = claim.get("seeds", plan["seeds"]), claim["assumed"]
    if claim["test"] == "overhead":
        effect = math.log(prior["effect"] / claim["bound"])
        return _power_of_rounds(effect, prior["standard_deviation"], plan["benches"][claim["bench"]]["pairs"], level)
    name = claim.get("figure", "loss")
    effect = math.log(prior["effect"]) if is_ratio(name) else prior["effect"]
    if claim.get("expected") == "within":  # two one-sided tests at a mean of zero
        return max(0.0, 2 * power(bound(claim), prior["standard_deviation"], n, 2 * level) - 1)
    if claim["test"] == "contrast":
        effect -= bound(claim)
    return power(effect, prior["standard_deviation"], n, level)


def _power_of_rounds(effect: float, spread: float, rounds: int, level: float) -> float:
    """Of a sign test: how often no more rounds lie on the far side of the bound than the test allows."""
    allowed = [k for k in range(rounds) if 2 * stats.binom.cdf(k, rounds, 0.5) < level]
    return float(stats.binom.cdf(max(allowed), rounds, stats.norm.cdf(-abs(effect) / spread))) if allowed else 0.0


def bound(claim: Claim) -> float:
    """Of a contrast, on the scale of its test."""
    if is_ratio(claim.get("figure", "loss")):
        return math.log(claim.get("bound", 1.0))
    return float(claim.get("bound", 0.0))
