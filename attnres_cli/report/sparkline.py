"""A curve in one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], width: int = 24) -> str:
    """At most `width` characters, each the mean of an equal share of `values`; the lowest is "▁", the highest "█".

    None and numbers that are not finite are gaps (a space where a share holds nothing else). A flat curve is all "▁".
    """
    assert width > 0
    count = min(width, len(values))
    shares = [values[index * len(values) // count : (index + 1) * len(values) // count] for index in range(count)]
    means = [_mean(share) for share in shares]
    known = [mean for mean in means if mean is not None]
    if not known:
        return " " * count
    low, high = min(known), max(known)
    return "".join(" " if mean is None else BARS[_level(mean, low, high)] for mean in means)


def _mean(share: Sequence[float | None]) -> float | None:
    finite = [value for value in share if value is not None and math.isfinite(value)]
    return sum(finite) / len(finite) if finite else None


def _level(value: float, low: float, high: float) -> int:
    return 0 if high == low else min(len(BARS) - 1, int((value - low) / (high - low) * len(BARS)))
