"""Is one arm better than another? The paired t-test over seeds, and its interval.

Two runs with the same seed share their initial weights and the order of their data, so the loss that a seed brings
with it cancels in their difference: what is tested is the mean of the differences, not the difference of two means.

Student's t, not a bootstrap. With few pairs a percentile bootstrap is far too narrow: it draws from the n values that
are there (its spread is the n-denominator one, and its quantiles are close to a normal's), so that a "95 %" interval
covers the true mean in about 75 % of studies at n = 3, 85 % at n = 5 and 91 % at n = 10. Losses over seeds are means
over many thousand tokens and near enough to normal; the t interval then covers 95 % at every n from two on.
tests/analysis/test_paired.py simulates both.

scipy.special, not scipy.stats: the same distributions, and a tenth of the time to import.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST_PAIRS = 3  # fewer never give a verdict: at n = 2 the interval is nine times wider than the differences' spread


@dataclass(frozen=True)
class PairedDifference:
    """Differences of n pairs and what they say of their mean; all in the unit of the values (nats for losses).

    differences: ours − theirs, by pair. low, high: interval of the mean at `confidence`. p: two-sided, of "the mean
    is zero"; 1.0 when every difference is exactly zero, 0.0 when all are equal and not zero.
    standard_deviation: of the differences, with n − 1.
    """

    differences: tuple[float, ...]
    mean: float
    low: float
    high: float
    p: float
    standard_deviation: float
    confidence: float

    @property
    def n(self) -> int:
        return len(self.differences)

    @property
    def standard_error(self) -> float:
        return self.standard_deviation / math.sqrt(self.n)


def paired_difference(ours: Sequence[float], theirs: Sequence[float], *, confidence: float = 0.95) -> PairedDifference:
    """The paired t-test of two arms, values in the same order of seeds.

    Raises ValueError for fewer than two pairs, sequences of unequal length and values that are not finite.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"pairs need as many values on either side, not {len(ours)} and {len(theirs)}")
    if len(ours) < 2:
        raise ValueError(f"a paired difference needs two pairs at least, not {len(ours)}")
    differences = tuple(float(one) - float(other) for one, other in zip(ours, theirs, strict=True))
    mean, low, high = mean_interval(differences, confidence=confidence)
    deviation = standard_deviation(differences)
    if deviation == 0.0:
        p = 1.0 if mean == 0.0 else 0.0
    else:
        p = two_sided_p(mean * math.sqrt(len(differences)) / deviation, len(differences) - 1)
    return PairedDifference(differences, mean, low, high, p, deviation, confidence)


def mean_interval(values: Sequence[float], *, confidence: float = 0.95) -> tuple[float, float, float]:
    """(mean, low, high) with Student's t; a single value says nothing of its spread: low = high = nan."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence lies between 0 and 1, not at {confidence}")
    if not values:
        raise ValueError("a mean needs a value")
    if not all(math.isfinite(value) for value in values):
        raise ValueError("every value has to be a finite number")
    n = len(values)
    mean = _mean(values)
    if n == 1:
        return mean, math.nan, math.nan
    half = t_quantile(confidence, n - 1) * standard_deviation(values) / math.sqrt(n)
    return mean, mean - half, mean + half


def standard_deviation(values: Sequence[float]) -> float:
    """With n − 1; exactly zero when all values are equal."""
    if len(values) < 2:
        raise ValueError("a standard deviation needs two values at least")
    mean = _mean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def t_quantile(confidence: float, degrees: float) -> float:
    """t with P(|T| ≤ t) = confidence."""
    from scipy.special import stdtrit

    return -float(stdtrit(degrees, (1.0 - confidence) / 2.0))


def two_sided_p(t: float, degrees: float) -> float:
    """P(|T| ≥ |t|)."""
    from scipy.special import stdtr

    return 2.0 * float(stdtr(degrees, -abs(t)))


def _mean(values: Sequence[float]) -> float:
    if all(value == values[0] for value in values):  # the sum of n equal numbers over n need not be that number
        return float(values[0])
    return math.fsum(values) / len(values)
