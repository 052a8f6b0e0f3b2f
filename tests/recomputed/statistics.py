"""The statistics of docs/compare.md from their definitions, by scipy's distributions or by plain sums."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import integrate, optimize, stats


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def mean_or_none(values: Sequence[float | None]) -> float | None:
    """The mean, where every one of them is known."""
    known = [value for value in values if value is not None]
    return mean(known) if known and len(known) == len(values) else None


def deviation(values: Sequence[float]) -> float:
    """The standard deviation of a sample: with n - 1."""
    middle = mean(values)
    return math.sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1))


def t_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Student's interval of the mean."""
    half = stats.t.ppf(0.5 + confidence / 2, len(values) - 1) * deviation(values) / math.sqrt(len(values))
    return mean(values) - half, mean(values) + half


@dataclass(frozen=True)
class Paired:
    """A paired t-test: mean, 95 % interval, two-sided p, and the deviation of the differences."""

    differences: tuple[float, ...]
    mean: float
    low: float
    high: float
    p: float
    deviation: float


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Paired:
    differences = [our - their for our, their in zip(ours, theirs, strict=True)]
    low, high = t_interval(differences)
    p = float(stats.ttest_rel(ours, theirs).pvalue)
    return Paired(tuple(differences), mean(differences), low, high, p, deviation(differences))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's correction: the smallest p times n, the next times n - 1, …; none below an earlier one, none above 1."""
    corrected: dict[str, float] = {}
    largest = 0.0
    ascending = sorted(p_values, key=lambda name: p_values[name])
    for place, name in enumerate(ascending):
        largest = max(largest, min(1.0, p_values[name] * (len(ascending) - place)))
        corrected[name] = largest
    return corrected


def power(effect: float, spread: float, pairs: int, level: float) -> float:
    """How often a two-sided paired t-test of so many pairs at this level shows an effect, where the differences have
    this standard deviation.

    t = (Z + effect √n / spread) / S with Z normal and (n - 1) S² chi-squared, integrated over S in small steps.
    """
    freedom = pairs - 1
    critical = stats.t.ppf(1 - level / 2, freedom)
    shift = effect * math.sqrt(pairs) / spread
    s = np.linspace(0, 8, 10_001)
    density = stats.chi.pdf(s * math.sqrt(freedom), freedom) * math.sqrt(freedom)
    beyond = stats.norm.sf(critical * s - shift) + stats.norm.cdf(-critical * s - shift)
    return float(integrate.simpson(density * beyond, x=s))


@cache
def smallest_detectable(spread: float, pairs: int, level: float) -> float:
    """The effect that is shown four times in five."""
    scale = spread / math.sqrt(pairs)
    wanted = optimize.brentq(lambda size: power(size * scale, spread, pairs, level) - 0.8, 0.1, 60, xtol=1e-12)
    return float(wanted * scale)


def median_interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """The median between the k-th smallest and the k-th largest sample, with the largest k for which such a pair holds
    the true median in 95 of 100 cases; without one that does, the whole range."""
    ordered, n = sorted(samples), len(samples)
    enough = [k for k in range(2, n // 2 + 1) if 1 - 2 * stats.binom.cdf(k - 1, n, 0.5) >= 0.95]
    k = max(enough, default=1)
    middle = ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2
    return middle, ordered[k - 1], ordered[n - k]
