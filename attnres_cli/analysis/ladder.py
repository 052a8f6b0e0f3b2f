"""The compute multiplier from the baseline's own ladder: how much more compute it needs for another arm's loss.

A ladder is a row of decayed endpoints: the same model trained to several horizons, each to the end of its schedule.
Between two rungs log loss is interpolated linearly over log compute; beyond the ladder nothing is said but on which
side of it the answer lies ("more than 2×").

The interval is the set of computes at which a paired t-test over seeds cannot tell the arm's loss from the ladder's:
at every compute C the difference, seed by seed, between the arm's log loss and the ladder's interpolated one is an
ordinary sample of n, with an exact t-test at any n from two on; the interval is every C it does not reject
(Fieller's construction). It needs no bootstrap, which is too narrow at a few seeds, and no slope that is divided by: a
ladder too flat to tell gives an interval that is open at the ladder's end, as it should.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnres_cli.analysis.paired import t_quantile

Array = NDArray[np.float64]

FEWEST_RUNGS = 2
PLACES = 4001  # along the ladder's log compute, where the test is made; its ends are interpolated between them


@dataclass(frozen=True)
class LadderMultiplier:
    """How much more compute the baseline needs, in multiples of what the other arm had.

    value: None where the answer lies outside the ladder; `side` then says where: "above" its last rung (the arm is
    better than all of it) or "below" its first. low, high: the interval; None where it is open, that is where seeds
    do not exclude an answer beyond the ladder's end. pairs: seeds; fewer than two give an open interval.
    first, last: the ladder's ends in the same multiples.
    """

    value: float | None
    side: Literal["above", "below"] | None
    low: float | None
    high: float | None
    pairs: int
    first: float
    last: float
    confidence: float

    @property
    def words(self) -> str:
        """ "1.25× (1.10–1.43)", "more than 2×", "less than 0.5×"; an open end of the interval is named by the ladder's,
        and a bound that seeds do not show has its interval behind it: "more than 2× (1.80–above 2)"."""
        if self.value is None:
            text = f"more than {self.last:.3g}×" if self.side == "above" else f"less than {self.first:.3g}×"
            is_shown = self.low == self.last if self.side == "above" else self.high == self.first
        else:
            text, is_shown = f"{self.value:.2f}×", False
        if is_shown or self.pairs < 2:
            return text
        low = f"below {self.first:.3g}" if self.low is None else f"{self.low:.2f}"
        high = f"above {self.last:.3g}" if self.high is None else f"{self.high:.2f}"
        return f"{text} ({low}–{high})"


def ladder_multiplier(
    compute: Sequence[float],
    ladder: Sequence[Sequence[float]],
    losses: Sequence[float],
    *,
    at: float,
    confidence: float = 0.95,
) -> LadderMultiplier:
    """The multiplier for an arm that reached `losses` with compute `at`.

    compute: [rungs] ascending, in any unit (tokens, FLOPs, seconds), the same as `at`. ladder: per rung the baseline's
    losses (nats) by seed. losses: [seeds] of the arm, in the same order of seeds. Raises ValueError for shapes that
    do not fit and for losses without a logarithm.
    """
    x = np.array(compute, dtype=np.float64)
    if len(x) < FEWEST_RUNGS or not (np.isfinite(x).all() and (x > 0.0).all() and (np.diff(x) > 0.0).all()):
        raise ValueError(f"a ladder has {FEWEST_RUNGS} rungs at least, of ascending compute")
    if len(ladder) != len(x) or any(len(rung) != len(losses) for rung in ladder) or not losses or not at > 0.0:
        raise ValueError("every rung needs the loss of every seed that the arm has")
    rungs = np.array(ladder, dtype=np.float64)
    own = np.array(losses, dtype=np.float64)
    for each in (rungs, own):
        if not (np.isfinite(each).all() and (each > 0.0).all()):
            raise ValueError("a loss has to be a finite number above zero to have a logarithm")
    log_x, log_rungs, log_own = np.log(x / at), np.log(rungs), np.log(own)

    value, side = _crossing(log_x, _falling(log_rungs.mean(axis=1)), float(log_own.mean()))
    low, high = _interval(log_x, log_rungs, log_own, confidence) if len(own) > 1 else (None, None)
    return LadderMultiplier(
        value=None if value is None else math.exp(value),
        side=side,
        low=None if low is None else math.exp(low),
        high=None if high is None else math.exp(high),
        pairs=len(own),
        first=math.exp(log_x[0]),
        last=math.exp(log_x[-1]),
        confidence=confidence,
    )


def _crossing(x: Array, y: Array, target: float) -> tuple[float | None, Literal["above", "below"] | None]:
    """Where falling y [rungs] over x [rungs] first reaches `target`, or on which side of them it would."""
    if target < y[-1]:
        return None, "above"
    if target > y[0]:
        return None, "below"
    index = int(np.argmax(y <= target))
    if index == 0:
        return float(x[0]), None
    share = (y[index - 1] - target) / (y[index - 1] - y[index])
    return float(x[index - 1] + share * (x[index] - x[index - 1])), None


def _falling(y: Array) -> Array:
    """The closest sequence (least squares) that never rises: rungs that noise put out of order are averaged."""
    n = len(y)
    mean = np.array([[y[i : j + 1].mean() if j >= i else math.nan for j in range(n)] for i in range(n)])
    return np.array([min(mean[i, k:].max() for i in range(k + 1)) for k in range(n)])


def _interval(x: Array, rungs: Array, own: Array, confidence: float) -> tuple[float | None, float | None]:
    """The first and the last place on the ladder that the t-test does not reject; None at an open end.

    Where it rejects everywhere, the answer is beyond one end, shown: the interval lies between that end and infinity
    (or zero), so that its inner end is the ladder's.
    """
    seeds = len(own)
    places = np.linspace(x[0], x[-1], PLACES)
    difference = own[:, None] - np.stack([np.interp(places, x, rungs[:, seed]) for seed in range(seeds)])
    mean, deviation = difference.mean(axis=0), difference.std(axis=0, ddof=1)
    margin = np.abs(mean) - t_quantile(confidence, seeds - 1) * deviation / math.sqrt(seeds)  # ≤ 0: not rejected
    accepted = np.flatnonzero(margin <= 0.0)
    if not len(accepted):
        rising = np.flatnonzero((mean[:-1] < 0.0) & (mean[1:] >= 0.0))
        if len(rising):  # seeds without any spread: the place itself
            return float(places[rising[0]]), float(places[rising[-1] + 1])
        return (float(x[-1]), None) if mean[-1] < 0.0 else (None, float(x[0]))
    first, last = int(accepted[0]), int(accepted[-1])
    low = None if first == 0 else _zero(places, margin, first - 1)
    high = None if last == PLACES - 1 else _zero(places, margin, last)
    return low, high


def _zero(places: Array, margin: Array, index: int) -> float:
    """Where the margin changes its sign between `index` and the next place."""
    one, two = float(margin[index]), float(margin[index + 1])
    return float(places[index] + (places[index + 1] - places[index]) * one / (one - two))
