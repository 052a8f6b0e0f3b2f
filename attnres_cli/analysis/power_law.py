"""Scaling laws L = A · C^−α of decayed losses, and the compute multiplier that two of them give.

The fit is least squares of log L on log C over the sizes' mean losses. An irreducible term, L = E + A · C^−α, is
fitted only from six sizes on: with fewer, E and α trade against each other and neither means anything. Small models
lie far above E, so a law without it describes them, but no law is to be believed far outside the sizes it was
fitted to.

Intervals come from a bootstrap over the seeds of every size, with the same draw for both arms, because their runs are
paired by seed: what the arms share cancels in the multiplier. A plain bootstrap of n seeds is too narrow by
√((n − 1) / n), and by a normal's quantile in place of t's; both are made good here (see `Draws`), so that 95 % holds
from two seeds on. The intervals hold the noise of seeds only, not whether the law is the right one.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from attnres_cli.analysis.paired import t_quantile

Array = NDArray[np.float64]

FEWEST_SIZES = 3  # two points lie on every law
FEWEST_SIZES_WITH_IRREDUCIBLE = 6
DRAWS = 2000
MANY = 1e9  # degrees of freedom at which t is a normal
IRREDUCIBLE_GRID = 41  # values of E tried at once, over a range that every round narrows
IRREDUCIBLE_ROUNDS = 5


@dataclass(frozen=True)
class PowerLaw:
    """L = irreducible + coefficient · C^−exponent. C in any unit of compute; losses in nats."""

    coefficient: float
    exponent: float
    irreducible: float = 0.0

    def loss(self, compute: float) -> float:
        return self.irreducible + self.coefficient * float(compute**-self.exponent)

    def compute(self, loss: float) -> float:
        """The compute at which the law reaches this loss; infinite where it never does."""
        above = loss - self.irreducible
        if above <= 0.0 or self.exponent <= 0.0:
            return math.inf
        return float((self.coefficient / above) ** (1.0 / self.exponent))


@dataclass(frozen=True)
class Estimate:
    """A figure and its interval; without seeds to resample low = high = nan."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class FittedLaw:
    """A law and the intervals of its constants. irreducible: None where it was not fitted."""

    law: PowerLaw
    coefficient: Estimate
    exponent: Estimate
    irreducible: Estimate | None


@dataclass(frozen=True)
class LawComparison:
    """Two arms' laws from runs paired by seed, and the compute multiplier at `compute`.

    multiplier: how much more compute the baseline needs for the other arm's loss at `compute`; above 1, the other
    arm is ahead.
    """

    baseline: FittedLaw
    other: FittedLaw
    compute: float
    multiplier: Estimate


def fit_law(compute: Sequence[float], losses: Sequence[float], *, irreducible: bool = False) -> PowerLaw:
    """The law through one loss (nats) per size. Raises ValueError for too few sizes and values without a logarithm."""
    x = _log_compute(compute, irreducible)
    y = np.array([losses], dtype=np.float64)
    if y.shape != (1, len(x)):
        raise ValueError("there has to be one loss per size")
    _check_losses(y)
    return _law(_fit(x, y, irreducible)[0])


def multiplier(baseline: PowerLaw, other: PowerLaw, compute: float) -> float:
    """How much more compute the baseline needs for the loss that `other` reaches with `compute`."""
    return baseline.compute(other.loss(compute)) / compute


def compare_laws(
    compute: Sequence[float],
    baseline: Sequence[Sequence[float]],
    other: Sequence[Sequence[float]],
    *,
    at: float,
    irreducible: bool = False,
    confidence: float = 0.95,
    seed: int = 0,
    draws: int = DRAWS,
) -> LawComparison:
    """Laws of two arms and the multiplier at compute `at`, with joint bootstrap intervals.

    baseline, other: per size the losses (nats) of its seeds, in the same order of seeds, for they are resampled
    together; sizes may have different numbers of seeds. With one seed a size there are no intervals.
    """
    x = _log_compute(compute, irreducible)
    resampled = Draws.of(x, [baseline, other], seed=seed, draws=draws)
    theirs, ours = (_fit(x, means, irreducible) for means in resampled.means)
    value, low, high = resampled.interval(_log_multipliers(theirs, ours, at), confidence)
    return LawComparison(
        _with_intervals(theirs, resampled, irreducible, confidence),
        _with_intervals(ours, resampled, irreducible, confidence),
        at,
        Estimate(*(_exp(each) for each in (value, low, high))),
    )


def law_with_intervals(
    compute: Sequence[float],
    losses: Sequence[Sequence[float]],
    *,
    irreducible: bool = False,
    confidence: float = 0.95,
    seed: int = 0,
    draws: int = DRAWS,
) -> FittedLaw:
    """The law of one arm. losses: per size those of its seeds."""
    x = _log_compute(compute, irreducible)
    resampled = Draws.of(x, [losses], seed=seed, draws=draws)
    return _with_intervals(_fit(x, resampled.means[0], irreducible), resampled, irreducible, confidence)


@cache
def paper_laws() -> Mapping[str, PowerLaw]:
    """The paper's fits by scheme (arXiv 2603.15031, Fig. 4 and §5.1); C in PFLOP/s-days, validation loss in nats."""
    text = resources.files("attnres_cli.analysis").joinpath("paper_laws.toml").read_text(encoding="utf-8")
    return {name: PowerLaw(**constants) for name, constants in tomllib.loads(text)["law"].items()}


@dataclass(frozen=True)
class Draws:
    """Bootstrapped mean losses: per arm [1 + draws, sizes], the means themselves first.

    A draw takes as many seeds of a size as it has, with replacement, the same for every arm. Its distance from the
    mean is stretched by √(n / (n − 1)): so the draws of a mean have the variance s² / n of the text-book, not
    (n − 1) / n of it. counts: seeds per size.
    """

    means: tuple[Array, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, x: Array, arms: Sequence[Sequence[Sequence[float]]], *, seed: int, draws: int) -> Draws:
        counts = [len(size) for size in arms[0]]
        if any([len(size) for size in arm] != counts for arm in arms) or len(counts) != len(x):
            raise ValueError("arms that are paired by seed have as many losses at every size")
        if min(counts) < 1:
            raise ValueError("every size needs a loss")
        generator = np.random.default_rng(seed)
        columns: list[list[Array]] = [[] for _ in arms]
        for index, n in enumerate(counts):
            taken = generator.integers(n, size=(draws, n))
            for arm, column in zip(arms, columns, strict=True):
                values = np.array(arm[index], dtype=np.float64)
                mean = values.mean()
                stretched = math.sqrt(n / (n - 1)) * (values[taken].mean(axis=1) - mean) if n > 1 else np.zeros(draws)
                column.append(np.concatenate([[mean], mean + stretched]))
        means = tuple(np.stack(column, axis=1) for column in columns)
        for each in means:
            _check_losses(each)
        return cls(means, tuple(counts))

    def interval(self, figures: Array, confidence: float) -> tuple[float, float, float]:
        """(value, low, high) of a figure [1 + draws]: percentiles, moved away from the value by t over normal."""
        value = float(figures[0])
        if all(n == 1 for n in self.counts):
            return value, math.nan, math.nan
        ends = [0.5 * (1.0 - confidence), 0.5 * (1.0 + confidence)]
        low, high = np.quantile(figures[1:], ends, method="inverted_cdf")  # a draw each, for some may be infinite
        if not np.isfinite(figures).all():
            return value, float(low), float(high)
        wider = t_quantile(confidence, self._degrees(figures)) / t_quantile(confidence, MANY)
        return value, value + wider * (float(low) - value), value + wider * (float(high) - value)

    def _degrees(self, figures: Array) -> float:
        """Degrees of freedom of the spread of a figure: Welch and Satterthwaite's, (Σ v)² / Σ v² / (n − 1), with v what
        each size adds to its variance. The sizes at the ends add most, so it is less than all their seeds."""
        moved = [means[1:] - means[0] for means in self.means]
        columns = np.concatenate(moved, axis=1)  # [draws, arms · sizes]
        weights = np.linalg.lstsq(columns, figures[1:] - figures[1:].mean(), rcond=None)[0]
        parts = (columns * weights).reshape(len(columns), len(moved), -1).sum(axis=1)  # [draws, sizes]
        variance = parts.var(axis=0)
        several = [index for index, n in enumerate(self.counts) if n > 1]
        squares = sum(variance[index] ** 2 / (self.counts[index] - 1) for index in several)
        return float(variance.sum() ** 2 / squares) if squares > 0.0 else MANY


# ---------------------------------------------------------------------- many fits at once


def _fit(x: Array, losses: Array, irreducible: bool) -> Array:
    """x: [sizes] log compute. losses: [fits, sizes]. Returns [fits, 3]: coefficient, exponent, irreducible."""
    floor = np.zeros(len(losses))
    if irreducible:
        lowest = losses.min(axis=1)
        low, high = np.zeros_like(lowest), lowest * (1.0 - 1e-6)
        for _ in range(IRREDUCIBLE_ROUNDS):  # the best E of a grid, then a finer grid between its neighbours
            steps = np.linspace(0.0, 1.0, IRREDUCIBLE_GRID)
            tried = low[:, None] + (high - low)[:, None] * steps  # [fits, grid]
            error = _line(x, np.log(losses[:, None, :] - tried[:, :, None]))[2]
            best = error.argmin(axis=1)
            floor = np.take_along_axis(tried, best[:, None], axis=1)[:, 0]
            spacing = (high - low) / (IRREDUCIBLE_GRID - 1)
            low, high = np.maximum(low, floor - spacing), np.minimum(high, floor + spacing)
    intercept, slope, _ = _line(x, np.log(losses - floor[:, None]))
    return np.stack([np.exp(intercept), -slope, floor], axis=1)


def _log_multipliers(baseline: Array, other: Array, compute: float) -> Array:
    """`multiplier` of many pairs of fits [fits, 3], in logarithms."""
    above = other[:, 2] + other[:, 0] * compute ** -other[:, 1] - baseline[:, 2]
    reached = (above > 0.0) & (baseline[:, 1] > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(baseline[:, 0] / above) / baseline[:, 1] - math.log(compute)
    return np.where(reached, logs, math.inf)


def _line(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Least squares along the last axis: intercept, slope and the sum of squared errors."""
    centred = x - x.mean()
    mean = y.mean(axis=-1)
    slope = (y * centred).sum(axis=-1) / (centred**2).sum()
    intercept = mean - slope * x.mean()
    error = ((y - mean[..., None] - slope[..., None] * centred) ** 2).sum(axis=-1)
    return intercept, slope, error


def _with_intervals(fits: Array, draws: Draws, irreducible: bool, confidence: float) -> FittedLaw:
    coefficient = [_exp(each) for each in draws.interval(np.log(fits[:, 0]), confidence)]
    return FittedLaw(
        _law(fits[0]),
        Estimate(*coefficient),
        Estimate(*draws.interval(fits[:, 1], confidence)),
        Estimate(*draws.interval(fits[:, 2], confidence)) if irreducible else None,
    )


def _exp(value: float) -> float:
    return math.exp(value) if not value > 700.0 else math.inf


def _law(fit: Array) -> PowerLaw:
    return PowerLaw(float(fit[0]), float(fit[1]), float(fit[2]))


def _log_compute(compute: Sequence[float], irreducible: bool) -> Array:
    fewest = FEWEST_SIZES_WITH_IRREDUCIBLE if irreducible else FEWEST_SIZES
    if len(set(compute)) < fewest:
        raise ValueError(
            f"a law {'with an irreducible term ' * irreducible}needs {fewest} sizes, not {len(set(compute))}"
        )
    if not all(math.isfinite(each) and each > 0.0 for each in compute):
        raise ValueError("compute is a finite number above zero")
    return np.log(np.array(compute, dtype=np.float64))


def _check_losses(losses: Array) -> None:
    if not (np.isfinite(losses).all() and (losses > 0.0).all()):
        raise ValueError("a loss has to be a finite number above zero to have a logarithm")
