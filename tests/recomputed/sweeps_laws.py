"""Oracles of a scaling sweep: a power law per arm through the mean losses of the sizes, with bootstrap intervals.

As docs/sweep.md defines them: least squares of log L over log C (with an irreducible term from six sizes on, the one
with the least squared error of log(L − E)); C in PFLOP/s-days. The interval is a bootstrap over the seeds of every
size: 2000 draws by numpy's default_rng(0), size by size, distances from the mean stretched by √(n / (n − 1)),
percentiles moved outwards by the quantile of t over that of a normal, with Welch and Satterthwaite's degrees of
freedom. The draws are made again here, one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tests.recomputed.harness import Rows
from tests.recomputed.statistics import mean
from tests.recomputed.sweeps_files import Files

FLOPS_PER_PFLOP_S_DAY = 1e15 * 86400
DRAWS = 2000
FEWEST_SIZES = 3
FEWEST_SIZES_WITH_IRREDUCIBLE = 6
# The paper's Fig. 4: coefficient and exponent.
PAPER = {"prenorm": (1.891, 0.057), "attnres-block": (1.870, 0.058), "attnres-full": (1.865, 0.057)}
Array = NDArray[np.float64]
Law = tuple[float, float, float]  # coefficient, exponent, irreducible


@dataclass(frozen=True)
class Sizes:
    """What a law is fitted to: per size the compute and the losses by seed."""

    compute: list[float]
    losses: list[list[float]]

    @property
    def means(self) -> list[float]:
        return [mean(each) for each in self.losses]

    @property
    def with_floor(self) -> bool:
        return len(self.compute) >= FEWEST_SIZES_WITH_IRREDUCIBLE


def sizes(files: Files, label: str) -> Sizes:
    """The sizes that every arm has finished with every seed."""
    cells = [cell["key"] for cell in files.cells if all(files.is_complete(cell["key"], each) for each in files.labels)]
    assert len(cells) >= FEWEST_SIZES
    compute = [files.trained(cell, label).manifest["flops"]["total"] / FLOPS_PER_PFLOP_S_DAY for cell in cells]
    by_seed = [files.losses(cell, label) for cell in cells]
    return Sizes(compute, [[losses[seed] for seed in sorted(losses)] for losses in by_seed])


def fit(compute: Sequence[float], losses: Sequence[Sequence[float]], *, floor: bool) -> list[Law]:
    """The law of every draw; losses: [draws][sizes]."""
    x, y = np.log(compute), np.array(losses)
    low = _floor(x, y) if floor else np.zeros(len(y))
    level, slope, _ = _line(x, np.log(y - low[:, None]))
    return [(math.exp(a), -b, c) for a, b, c in zip(level.tolist(), slope.tolist(), low.tolist(), strict=True)]


def _line(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """The straight line through the points of every draw: level, slope, and squared error."""
    n = len(x)
    square = n * (x**2).sum() - x.sum() ** 2
    slope = (n * (x * y).sum(axis=-1) - x.sum() * y.sum(axis=-1)) / square
    level = (y.sum(axis=-1) - slope * x.sum()) / n
    return level, slope, ((level[..., None] + slope[..., None] * x - y) ** 2).sum(axis=-1)


def _floor(x: Array, y: Array) -> Array:
    """Per draw the E from 0 to the lowest loss with the least squared error, by golden sections around the best of
    101."""

    def error(share: Array) -> Array:
        return _line(x, np.log(y - (share * y.min(axis=1))[:, None]))[2]

    tried = np.linspace(0.0, 1 - 1e-6, 101)
    best = np.argmin([error(np.full(len(y), share)) for share in tried], axis=0)
    low, high = tried[np.maximum(best - 1, 0)], tried[np.minimum(best + 1, 100)]
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(40):
        one, two = high - golden * (high - low), low + golden * (high - low)
        is_lower = error(one) < error(two)
        low, high = np.where(is_lower, low, one), np.where(is_lower, two, high)
    return np.asarray((low + high) / 2 * y.min(axis=1))


def multiplier(base: Law, ours: Law, at: float) -> float:
    """How many times the compute `at` one law needs for the loss that the other one has there."""
    loss = ours[2] + ours[0] * at ** -ours[1]
    above = loss - base[2]
    return math.inf if above <= 0 or base[1] <= 0 else float((base[0] / above) ** (1 / base[1]) / at)


def multipliers(base: Sizes, ours: Sizes, drawn: Sequence[Sequence[Sequence[float]]]) -> list[float]:
    """Per draw (of the reference, of the arm): at the largest size, with both laws over the reference's compute, and
    then over what the arm itself takes more there."""
    at = base.compute[-1]
    one, two = (fit(base.compute, each, floor=ours.with_floor) for each in drawn)
    return [multiplier(a, b, at) / (ours.compute[-1] / at) for a, b in zip(one, two, strict=True)]


def laws(files: Files) -> Rows:
    base = sizes(files, files.reference)
    rows: Rows = []
    for label in files.labels:
        own = sizes(files, label)
        [(coefficient, exponent, floor)] = fit(own.compute, [own.means], floor=own.with_floor)
        [times] = multipliers(base, own, [[base.means], [own.means]])
        paper = PAPER.get(files.trained(files.cells[0]["key"], label).scheme, (None, None))
        rows.append(
            {
                "arm": label,
                "coefficient": coefficient,
                "exponent": exponent,
                **({"irreducible": floor} if own.with_floor else {}),
                "multiplier": None if label == files.reference else times,
                "paper_coefficient": paper[0],
                "paper_exponent": paper[1],
            }
        )
    return rows


# ---------------------------------------------------------------------- intervals


def laws_payload(files: Files) -> dict[str, Any]:
    """Value, low and high of each constant and of the multiplier."""
    base = sizes(files, files.reference)
    found = {}
    for label in files.labels:
        own = sizes(files, label)
        drawn, both = draws([own]), draws([base, own])
        fits = fit(own.compute, drawn[0], floor=own.with_floor)
        times = [math.log(each) for each in multipliers(base, own, both)]
        found[label] = {
            "coefficient": _interval([math.log(each[0]) for each in fits], [own], drawn, exponential=True),
            "exponent": _interval([each[1] for each in fits], [own], drawn),
            "irreducible": _interval([each[2] for each in fits], [own], drawn) if own.with_floor else None,
            "compute_multiplier": None
            if label == files.reference
            else _interval(times, [base, own], both, exponential=True),
        }
    return found


def draws(arms: Sequence[Sizes]) -> list[list[list[float]]]:
    """Per arm the means of every draw, the means themselves first; arms are drawn with the same seeds."""
    counts = [len(losses) for losses in arms[0].losses]
    generator = np.random.default_rng(0)
    taken = [generator.integers(n, size=(DRAWS, n)) for n in counts]
    found = []
    for arm in arms:
        drawn = [arm.means]
        for number in range(DRAWS):
            row = []
            for losses, middle, chosen in zip(arm.losses, arm.means, taken, strict=True):
                n = len(losses)
                away = mean([losses[place] for place in chosen[number]]) - middle
                row.append(middle + (math.sqrt(n / (n - 1)) * away if n > 1 else 0.0))
            drawn.append(row)
        found.append(drawn)
    return found


def _interval(
    figures: Sequence[float], arms: Sequence[Sizes], drawn: Sequence[Any], *, exponential: bool = False
) -> dict[str, float | None]:
    """Percentiles of the draws, moved away from the value by the quantile of t over that of a normal."""
    back = math.exp if exponential else float
    value = figures[0]
    counts = [len(losses) for losses in arms[0].losses]
    if all(n == 1 for n in counts):
        return {"value": back(value), "low": None, "high": None}
    ascending = sorted(figures[1:])
    beyond = DRAWS // 40  # a fortieth of the draws on either side
    low, high = ascending[beyond], ascending[-1 - beyond]
    wider = stats.t.ppf(0.975, _degrees(figures, counts, drawn)) / stats.norm.ppf(0.975)
    return {
        "value": back(value),
        "low": back(value + wider * (low - value)),
        "high": back(value + wider * (high - value)),
    }


def _degrees(figures: Sequence[float], counts: Sequence[int], drawn: Sequence[Any]) -> float:
    """Welch and Satterthwaite: (Σ v)² / Σ v² / (n − 1), v what each size adds to the variance of the figure, by a
    linear regression of the draws of the figure on those of the means."""
    moved = np.concatenate([np.array(arm[1:]) - np.array(arm[0]) for arm in drawn], axis=1)
    weights = np.linalg.lstsq(moved, np.array(figures[1:]) - mean(list(figures[1:])), rcond=None)[0]
    size = len(counts)
    parts = [
        sum(moved[:, arm * size + place] * weights[arm * size + place] for arm in range(len(drawn)))
        for place in range(size)
    ]
    variances = [float(np.var(part)) for part in parts]
    squares = sum(v**2 / (n - 1) for v, n in zip(variances, counts, strict=True) if n > 1)
    return sum(variances) ** 2 / squares


ORACLES = {"laws": laws}
BUILT_IN = {"laws": "report/tables/sweep_laws.py"}
