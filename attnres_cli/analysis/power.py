"""What a design can show: power of the paired t-test, the smallest effect it finds, the pairs an effect needs.

With a true mean difference of `effect` and pair differences of standard deviation s, t of n pairs follows the
noncentral t distribution with n − 1 degrees of freedom and noncentrality effect · √n / s (Cohen, Statistical Power
Analysis, 1988, ch. 2). The standard deviation is taken as known; one estimated from few pairs makes these figures
estimates, too.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from attnres_cli.analysis.paired import FEWEST_PAIRS, t_quantile

MOST_PAIRS = 100_000
NODES = 128
EMPTY_TAIL = 1e-13  # of the distribution of S, left out at either end


def power_of(effect: float, standard_deviation: float, n: int, *, alpha: float = 0.05) -> float:
    """Probability that a two-sided paired t-test of n pairs at `alpha` shows an effect of this size.

    Without an effect this is alpha itself. effect and standard_deviation in one unit (nats for losses).
    """
    _check(standard_deviation, n, alpha)
    if standard_deviation == 0.0:
        return alpha if effect == 0.0 else 1.0
    return _power(abs(effect) * math.sqrt(n) / standard_deviation, n - 1, alpha)


def smallest_detectable(standard_deviation: float, n: int, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """The effect (same unit) that n pairs show with probability `power`."""
    _check(standard_deviation, n, alpha)
    _check_power(power, alpha)
    if standard_deviation == 0.0:
        return 0.0
    return _noncentrality_shown(power, n - 1, alpha) * standard_deviation / math.sqrt(n)


def pairs_needed(effect: float, standard_deviation: float, *, power: float = 0.8, alpha: float = 0.05) -> int:
    """The fewest pairs that show this effect with probability `power`; never below the fewest a verdict takes.

    Raises ValueError for no effect, which no number of pairs shows, and for one that MOST_PAIRS do not.
    """
    _check(standard_deviation, FEWEST_PAIRS, alpha)
    _check_power(power, alpha)
    if effect == 0.0:
        raise ValueError("no number of pairs shows an effect of zero")

    def enough(n: int) -> bool:
        return power_of(effect, standard_deviation, n, alpha=alpha) >= power

    if enough(FEWEST_PAIRS):
        return FEWEST_PAIRS
    low, high = FEWEST_PAIRS, 2 * FEWEST_PAIRS
    while not enough(high):
        if high > MOST_PAIRS:
            raise ValueError(f"more than {MOST_PAIRS} pairs are needed")
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@lru_cache(maxsize=256)
def _noncentrality_shown(power: float, degrees: int, alpha: float) -> float:
    """The noncentrality that is shown with probability `power`; the same for every standard deviation."""
    low, high = 0.0, 2.0
    while _power(high, degrees, alpha) < power:
        low, high = high, 2.0 * high
    for _ in range(60):  # halving: the power rises with the noncentrality throughout
        middle = 0.5 * (low + high)
        if _power(middle, degrees, alpha) < power:
            low = middle
        else:
            high = middle
    return high


def _power(noncentrality: float, degrees: int, alpha: float) -> float:
    """P(|T| > critical t) with T = (Z + noncentrality) / S, Z normal and degrees · S² chi-squared.

    Integrated over S by Gauss-Legendre quadrature: scipy's noncentral t turns nan where a tail is nearly empty.
    """
    from scipy.special import ndtr

    width, critical, density = _over_s(degrees, alpha)
    beyond = ndtr(noncentrality - critical) + ndtr(-noncentrality - critical)
    return float(0.5 * width * np.sum(density * beyond))


@lru_cache(maxsize=256)
def _over_s(degrees: int, alpha: float) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """The width of the range of S; at its nodes, critical t times S, and the density of S times the node's weight."""
    from scipy.special import gammainccinv, gammaincinv, gammaln

    half = 0.5 * degrees
    low, high = (math.sqrt(inverse(half, EMPTY_TAIL) / half) for inverse in (gammaincinv, gammainccinv))
    nodes, weights = _quadrature()
    s = low + 0.5 * (high - low) * (nodes + 1.0)
    log_density = math.log(2.0) + half * math.log(half) - gammaln(half) + (degrees - 1) * np.log(s) - half * s**2
    return high - low, t_quantile(1.0 - alpha, degrees) * s, weights * np.exp(log_density)


@cache
def _quadrature() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights on (-1, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes, weights


def _check(standard_deviation: float, n: int, alpha: float) -> None:
    if n < 2:
        raise ValueError(f"a paired test needs two pairs at least, not {n}")
    if not (math.isfinite(standard_deviation) and standard_deviation >= 0.0):
        raise ValueError(f"a standard deviation is a finite number from zero on, not {standard_deviation}")
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha lies between 0 and 1, not at {alpha}")


def _check_power(power: float, alpha: float) -> None:
    if not alpha < power < 1.0:
        raise ValueError(f"a power lies between alpha ({alpha}) and 1, not at {power}")
