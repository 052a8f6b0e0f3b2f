"""Intervals that probes give: of a mean over sequences, and of a slope through depth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from attnres_cli.analysis.paired import mean_interval, t_quantile

CONFIDENCE = 0.95


def with_interval(name: str, by_place: Sequence[Tensor]) -> Mapping[str, npt.NDArray[np.float64]]:
    """Arrays name, name_low and name_high: for each place the mean of its numbers, one per sequence, and its 95 %
    interval (Student's t); of one sequence there is none, and the ends are nan."""
    found = [mean_interval(numbers.tolist(), confidence=CONFIDENCE) for numbers in by_place]
    mean, low, high = np.array(found, dtype=np.float64).reshape(-1, 3).T
    return {name: mean.copy(), f"{name}_low": low.copy(), f"{name}_high": high.copy()}


def slope_in_logarithms(x: Sequence[float], y: Sequence[float]) -> dict[str, Any]:
    """p of y = c x^p by least squares on the logarithms: estimate, low, high (95 %, Student's t with n - 2 degrees of
    freedom, from the residuals). None where there are too few points, or one that has no logarithm."""
    if len(x) < 2 or not all(math.isfinite(value) and value > 0 for value in (*x, *y)):
        return {"estimate": None, "low": None, "high": None}
    log_x, log_y = np.log(np.asarray(x, dtype=np.float64)), np.log(np.asarray(y, dtype=np.float64))
    centred = log_x - log_x.mean()
    spread = float(centred @ centred)
    estimate = float(centred @ log_y) / spread
    if len(x) < 3:
        return {"estimate": estimate, "low": None, "high": None}
    residuals = log_y - log_y.mean() - estimate * centred
    error = math.sqrt(float(residuals @ residuals) / (len(x) - 2) / spread)
    half = t_quantile(CONFIDENCE, len(x) - 2) * error
    return {"estimate": estimate, "low": estimate - half, "high": estimate + half}
