"""Where a row of a grid is best: the smooth optimum of loss over a ratio, such as width to depth at a fixed budget.

Least squares of a parabola in log ratio through the losses of the row's cells, every run counting once. The lowest
cell alone says little: near the optimum the curve is flat, and seeds decide between neighbours.

The interval is the set of ratios at which the curve's slope may be zero: the parabola is fitted for every seed alone,
and at every ratio an exact t-test over seeds asks whether the mean slope differs from zero (Fieller's construction;
right from two seeds on, where a bootstrap is too narrow). Whether the optima of two arms differ is a paired t-test
over seeds, too, of how far each seed's runs move either optimum (the delta method): what a seed does to both arms
cancels. Neither knows whether the curve really is a parabola.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnres_cli.analysis.paired import PairedDifference, paired_difference, t_quantile

Array = NDArray[np.float64]

FEWEST_CELLS = 4  # a parabola goes through any three
PLACES = 4001


@dataclass(frozen=True)
class RowOptimum:
    """The optimum of one arm's row.

    ratio: None where the fitted minimum lies outside the grid or the curve has none; `edge` then says on which side
    the loss is lowest. low, high: the interval of the ratio; None where it is open, that is where seeds do not
    exclude an optimum beyond the grid's end. loss: the curve's, at the optimum or at the edge (nats). seeds: with a run
    in every cell; fewer than two give an open interval. displacements: of those seeds, how far (in log ratio) each
    moves the optimum, in the order of seeds; nan for the others.
    """

    ratio: float | None
    edge: Literal["lowest", "highest"] | None
    low: float | None
    high: float | None
    loss: float
    seeds: int
    displacements: tuple[float, ...]
    confidence: float

    def excludes(self, ratio: float) -> bool:
        """Whether the interval shows that the optimum is not at this ratio."""
        return (self.low is not None and ratio < self.low) or (self.high is not None and ratio > self.high)


def row_optimum(ratios: Sequence[float], losses: Sequence[Sequence[float]], *, confidence: float = 0.95) -> RowOptimum:
    """The optimum of one row. losses: per cell those of the seeds (nats), in the same order; nan for a run that has
    none. A cell without any loss is left out. Raises ValueError for fewer than FEWEST_CELLS cells."""
    x, y = _cells(ratios, losses)
    middle = 0.5 * (x[0] + x[-1])
    u = x - middle  # about the middle, for the sake of rounding
    curve = _parabola(np.repeat(u, y.shape[1])[np.isfinite(y).ravel()], y[np.isfinite(y)])
    complete = np.isfinite(y).all(axis=0)
    by_seed = [_parabola(u, column) for column in y[:, complete].T]

    found, edge = _minimum(curve, u)
    low, high = _interval(np.array(by_seed), u, confidence) if len(by_seed) > 1 else (None, None)
    displacements = np.full(y.shape[1], math.nan)
    if edge is None:
        displacements[complete] = [-(each[1] + 2.0 * each[2] * found) / (2.0 * curve[2]) for each in by_seed]
    return RowOptimum(
        ratio=None if edge else math.exp(middle + found),
        edge=edge,
        low=None if low is None else math.exp(middle + low),
        high=None if high is None else math.exp(middle + high),
        loss=float(curve[0] + curve[1] * found + curve[2] * found**2),
        seeds=len(by_seed),
        displacements=tuple(displacements.tolist()),
        confidence=confidence,
    )


def optimum_shift(ours: RowOptimum, theirs: RowOptimum) -> PairedDifference | None:
    """Log ratio of our optimum over theirs, paired by seed (the same order of seeds in both rows); its interval
    excludes zero where the optimum moved. None where either lies at an edge or two seeds are not in both rows."""
    if ours.ratio is None or theirs.ratio is None:
        return None
    pairs = [
        (math.log(ours.ratio) + one, math.log(theirs.ratio) + other)
        for one, other in zip(ours.displacements, theirs.displacements, strict=True)
        if math.isfinite(one) and math.isfinite(other)
    ]
    if len(pairs) < 2:
        return None
    return paired_difference([one for one, _ in pairs], [other for _, other in pairs], confidence=ours.confidence)


def _cells(ratios: Sequence[float], losses: Sequence[Sequence[float]]) -> tuple[Array, Array]:
    """Log ratios ascending [cells] and losses [cells, seeds] of the cells that have any."""
    if len(ratios) != len(losses) or len({len(cell) for cell in losses}) > 1:
        raise ValueError("every cell needs a ratio and a loss (or nan) per seed")
    if not all(math.isfinite(ratio) and ratio > 0.0 for ratio in ratios):
        raise ValueError("a ratio is a finite number above zero")
    y = np.array(losses, dtype=np.float64).reshape(len(losses), -1)
    y = np.where(np.isfinite(y), y, math.nan)
    order = [index for index in np.argsort(ratios) if np.isfinite(y[index]).any()]
    if len(order) < FEWEST_CELLS:
        raise ValueError(f"an optimum needs {FEWEST_CELLS} cells with a loss, not {len(order)}")
    return np.log(np.array(ratios, dtype=np.float64)[order]), y[order]


def _parabola(x: Array, y: Array) -> Array:
    """[3] constant, slope at zero and curvature of the least-squares parabola."""
    terms = np.stack([np.ones_like(x), x, x**2], axis=1)
    return np.asarray(np.linalg.lstsq(terms, y, rcond=None)[0], dtype=np.float64)


def _minimum(curve: Array, u: Array) -> tuple[float, Literal["lowest", "highest"] | None]:
    """Where on the grid the curve is lowest, and whether that is an edge of it."""
    if curve[2] > 0.0:
        found = float(-curve[1] / (2.0 * curve[2]))
        if u[0] <= found <= u[-1]:
            return found, None
    at_ends = curve[1] * u[[0, -1]] + curve[2] * u[[0, -1]] ** 2
    return (float(u[0]), "lowest") if at_ends[0] <= at_ends[1] else (float(u[-1]), "highest")


def _interval(curves: Array, u: Array, confidence: float) -> tuple[float | None, float | None]:
    """Places whose mean slope over seeds the t-test does not tell from zero; None at an open end.

    Where it rejects everywhere, the optimum is beyond one end, shown, and the interval lies from that end on. Curves
    that bend downwards have no minimum to enclose.
    """
    seeds = len(curves)
    if curves[:, 2].mean() <= 0.0:
        return None, None
    places = np.linspace(u[0], u[-1], PLACES)
    slopes = curves[:, 1, None] + 2.0 * curves[:, 2, None] * places
    mean, deviation = slopes.mean(axis=0), slopes.std(axis=0, ddof=1)
    accepted = np.flatnonzero(np.abs(mean) <= t_quantile(confidence, seeds - 1) * deviation / math.sqrt(seeds))
    if not len(accepted):
        rising = np.flatnonzero((mean[:-1] < 0.0) & (mean[1:] >= 0.0))
        if len(rising):  # seeds without any spread: the place itself
            return float(places[rising[0]]), float(places[rising[0] + 1])
        return (float(u[-1]), None) if mean[-1] < 0.0 else (None, float(u[0]))
    low = None if accepted[0] == 0 else float(places[accepted[0]])
    high = None if accepted[-1] == PLACES - 1 else float(places[accepted[-1]])
    return low, high
