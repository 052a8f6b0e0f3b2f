"""Ticks that people read: plain numbers, few of them, at round places."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axis import Axis as MatplotlibAxis
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from attnres_cli.report.numbers import short_count
from attnres_cli.report.picture import Axis

MOST_TICKS = 6
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def set_ticks(axis: MatplotlibAxis, described: Axis, ends: tuple[float, float], values: Sequence[float]) -> None:
    """Ticks between both ends. values: what is drawn; where few different ones stand on a logarithmic axis, they are
    the ticks."""
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value, described)))
    if described.logarithmic:
        axis.set_major_locator(FixedLocator(logarithmic_ticks(ends, values)))
    else:
        integers = all(value == round(value) for value in values)
        axis.set_major_locator(MaxNLocator(MOST_TICKS - 1, integer=integers, steps=[1, 2, 2.5, 5, 10]))


def logarithmic_ticks(ends: tuple[float, float], values: Sequence[float]) -> list[float]:
    """At most about six places between the ends, both positive: the values themselves where they are few, else powers
    of ten, or 1, 2 and 5 times them; within less than a decade round numbers."""
    low, high = ends
    distinct = sorted(set(values))
    if 2 <= len(distinct) <= MOST_TICKS and _are_apart(distinct, ends):
        return distinct
    if high < 10 * low:
        return [float(tick) for tick in MaxNLocator(MOST_TICKS - 1).tick_values(low, high) if low <= tick <= high]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [factor * 10.0**power for power in powers for factor in factors]
        within = [tick for tick in ticks if low <= tick <= high]
        if len(within) <= MOST_TICKS:
            return within
    return within[:: -(-len(within) // MOST_TICKS)]


def _are_apart(values: Sequence[float], ends: tuple[float, float]) -> bool:
    """Whether labels at the values would not touch."""
    span = math.log(ends[1] / ends[0])
    return all(
        math.log(right / left) > span / (MOST_TICKS + 2) for left, right in zip(values, values[1:], strict=False)
    )


def tick_text(value: float, axis: Axis) -> str:
    """ "1.5M" tokens, "10¹⁵" FLOPs, "0.05"."""
    if value == 0:
        return "0"
    size = abs(value)
    if "FLOPs" in axis.text or size >= 1e7 or size < 1e-4:
        power = math.floor(math.log10(size) + 1e-9)
        lead = value / 10.0**power
        raised = f"10{str(power).translate(_RAISED)}"
        return raised if math.isclose(lead, 1) else f"{lead:.3g}·{raised}".replace("-", "−")
    if size >= 1000:
        return short_count(value)
    return f"{value:.4g}".replace("-", "−")
