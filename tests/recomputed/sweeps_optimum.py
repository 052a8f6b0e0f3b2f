"""Oracles of the smooth optimum of width to depth: the minimum of a parabola in the logarithm of the ratio.

The interval is Fieller's, as docs/sweep.md says: a parabola per seed; a ratio is left out where a t-test over the seeds
tells the slope there from zero. That is a quadratic inequality, which is solved here; the program tries 4001 places
along the row, so that its ends are exact to one of those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from tests.recomputed.harness import Rows
from tests.recomputed.raw import Run
from tests.recomputed.statistics import Paired, paired
from tests.recomputed.sweeps_files import Files
from tests.recomputed.sweeps_grid import Place, compared, keys, rows_of

FEWEST_CELLS = 4
PLACES = 4000


@dataclass(frozen=True)
class Found:
    """ratio: None where the minimum is at an end of the row; end: that end's then. loss: of the curve at it. moved: by
    how much (in log ratio) each seed with a loss in every cell moves the minimum."""

    ratio: float | None
    end: float
    low: float | None
    high: float | None
    loss: float
    moved: dict[int, float]


def optima(files: Files) -> dict[tuple[float | None, str], Found]:
    found = {}
    for row in rows_of(files):
        places = [place for place in compared(files) if place[0] == row]
        if len(places) >= FEWEST_CELLS:
            for label in files.labels:
                found[row, label] = _optimum(files, places, label)
    return found


def _optimum(files: Files, places: list[Place], label: str) -> Found:
    cells = [keys(files)[place] for place in places]
    return fitted([files.trained(cell, label) for cell in cells], [files.losses(cell, label) for cell in cells])


def fitted(runs: Sequence[Run], losses: Sequence[Mapping[int, float]]) -> Found:
    """runs: one of every cell; losses: of every cell by seed."""
    models = [run.resolved["model"] for run in runs]
    ratios = [model["d_model"] / model["transformer_blocks"] for model in models]
    order = sorted(range(len(runs)), key=lambda number: ratios[number])
    x = [math.log(ratios[number]) for number in order]
    middle = (x[0] + x[-1]) / 2
    u = [each - middle for each in x]
    by_cell = [losses[number] for number in order]
    points = [(place, loss) for place, losses in zip(u, by_cell, strict=True) for loss in losses.values()]
    bend, slope, level = np.polyfit([each[0] for each in points], [each[1] for each in points], 2)
    seeds = sorted(set.intersection(*(set(losses) for losses in by_cell)))
    curves = {seed: np.polyfit(u, [losses[seed] for losses in by_cell], 2) for seed in seeds}
    best = -slope / (2 * bend)
    inside = bend > 0 and u[0] <= best <= u[-1]
    if not inside:
        ends = {place: slope * place + bend * place**2 for place in (u[0], u[-1])}
        best = min(ends, key=lambda place: ends[place])
    low, high = _interval(list(curves.values()), u[0], u[-1]) if len(seeds) > 1 else (None, None)
    return Found(
        ratio=math.exp(middle + best) if inside else None,
        end=math.exp(middle + best),
        low=None if low is None else math.exp(middle + low),
        high=None if high is None else math.exp(middle + high),
        loss=float(level + slope * best + bend * best**2),
        moved={seed: float(-(own[1] + 2 * own[0] * best) / (2 * bend)) for seed, own in curves.items()}
        if inside
        else {},
    )


def _interval(curves: list[Any], first: float, last: float) -> tuple[float | None, float | None]:
    """Where the mean slope m + 2 b x over seeds is within t standard errors of zero; None for an end beyond the row."""
    n = len(curves)
    m, b = (np.array([curve[place] for curve in curves]) for place in (1, 0))
    if b.mean() <= 0:
        return None, None
    t2 = stats.t.ppf(0.975, n - 1) ** 2 / n
    covariance = np.cov(m, 2 * b, ddof=1)
    # (mean m + x mean 2b)² ≤ t²/n (var m + 2 x cov + x² var 2b)
    square = (2 * b.mean()) ** 2 - t2 * covariance[1, 1]
    linear = 2 * (m.mean() * 2 * b.mean() - t2 * covariance[0, 1])
    constant = m.mean() ** 2 - t2 * covariance[0, 0]
    roots = sorted(float(root.real) for root in np.roots([square, linear, constant]) if abs(root.imag) < 1e-12)
    inside = [root for root in roots if first < root < last]
    at_ends = [square * end**2 + linear * end + constant <= 0 for end in (first, last)]
    if not inside and not any(at_ends):  # told from zero everywhere, so that the minimum is beyond an end
        return (last, None) if m.mean() + 2 * b.mean() * last < 0 else (None, first)
    return None if at_ends[0] else inside[0], None if at_ends[1] else inside[-1]


def optimum(files: Files) -> Rows:
    """The interval is shown in words only."""
    return [
        {
            **({} if rows_of(files) == [None] else {"head_ratio": row}),
            "arm": label,
            "ratio": each.ratio,
            "loss": each.loss,
        }
        for (row, label), each in optima(files).items()
    ]


def optimum_payload(files: Files) -> list[dict[str, Any]]:
    """With the shift from the first arm's optimum: each seed moves both, and the paired t-test is over how far."""
    found = optima(files)
    values = []
    for (row, label), each in found.items():
        base = found[row, files.reference]
        seeds = each.moved.keys() & base.moved.keys()
        shift = None
        if label != files.reference and len(seeds) > 1 and each.ratio and base.ratio:
            test = shifted(each, base)
            factors = {
                key: math.exp(value) for key, value in (("factor", test.mean), ("low", test.low), ("high", test.high))
            }
            shift = {**factors, "p": test.p, "pairs": len(seeds)}
        values.append(
            {
                "head_ratio": row,
                "ratio": each.ratio,
                "low": each.low,
                "high": each.high,
                "loss": each.loss,
                "seeds": _complete(files, row),
                "shift": shift,
            }
        )
    return values


def shifted(ours: Found, theirs: Found) -> Paired:
    """Of the logarithms of both optima, over the seeds that have moved both."""
    assert ours.ratio
    assert theirs.ratio
    seeds = sorted(ours.moved.keys() & theirs.moved.keys())
    return paired(
        [math.log(ours.ratio) + ours.moved[seed] for seed in seeds],
        [math.log(theirs.ratio) + theirs.moved[seed] for seed in seeds],
    )


def _complete(files: Files, row: float | None) -> int:
    """Seeds with a loss in every compared cell of a row: all of them, because a cell is compared only when it is
    whole."""
    assert any(place[0] == row for place in compared(files))
    return len(files.seeds)


ORACLES = {"optimum": optimum}
BUILT_IN = {"optimum": "report/tables/sweep_optimum.py"}
