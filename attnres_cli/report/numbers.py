"""How numbers look in a table: one unit and one number of decimals per column."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

MOST_DECIMALS = 6
BYTE_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))


@dataclass(frozen=True)
class NumberFormat:
    """decimals: digits after the point; None for scientific notation. signed: a plus sign before positive numbers."""

    decimals: int | None
    signed: bool = False

    def __call__(self, value: float) -> str:
        sign = "+" if self.signed else ""
        if self.decimals is None:
            return f"{value:{sign}.2e}"
        text = f"{value:{sign},.{self.decimals}f}"
        # A rounded-away minus would read as a direction: "-0.0000".
        return (
            text.replace("-", "+" if self.signed else "")
            if float(text.replace(",", "")) == 0 and text[0] == "-"
            else text
        )


def format_for(values: Iterable[float], *, digits: int = 3, signed: bool = False) -> NumberFormat:
    """The format of a column: the largest value shows at least `digits` significant digits, the smallest non-zero one
    two.

    Where that would need more than six decimals the whole column is in scientific notation.
    """
    sizes = [abs(value) for value in values if value]
    if not sizes:
        return NumberFormat(digits - 1, signed)
    decimals = max(0, digits - 1 - _exponent(max(sizes)), 1 - _exponent(min(sizes)))
    return NumberFormat(decimals if decimals <= MOST_DECIMALS else None, signed)


def byte_unit(values: Iterable[float]) -> tuple[str, int]:
    """(name, bytes) of the largest binary unit in which the largest value is at least 1; no name where there is no
    value."""
    largest = max((abs(value) for value in values), default=None)
    if largest is None:
        return ("", 1)
    return next((unit for unit in BYTE_UNITS if largest >= unit[1]), BYTE_UNITS[-1])


def short_count(count: float) -> str:
    """A count in three significant digits and a decimal suffix: 1230000 → "1.23M"."""
    for suffix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(count) >= size:
            return f"{count / size:.3g}{suffix}"
    return f"{count:.3g}"


def duration(seconds: float) -> str:
    """A time span for a sentence, rounded, in two units from a minute on: "1.8s", "44s", "3m 48s", "1h 05m", "2d 03h".

    A second unit of zero is left out; an unknown span (NaN) is a dash.
    """
    if math.isnan(seconds):
        return "–"
    if 0 < seconds < 0.0995:
        return f"{seconds * 1000:.2g}ms"
    if seconds < 9.95:
        return f"{seconds:.2g}s"
    if round(seconds) < 60:
        return f"{round(seconds)}s"
    if round(seconds) < 3600:
        return _two_units(round(seconds), "m", 60, "s")
    if round(seconds / 60) < 48 * 60:
        return _two_units(round(seconds / 60), "h", 60, "m")
    return _two_units(round(seconds / 3600), "d", 24, "h")


def _two_units(parts: int, unit: str, size: int, smaller: str) -> str:
    whole, rest = divmod(parts, size)
    return f"{whole}{unit}" + (f" {rest:02d}{smaller}" if rest else "")


def short_duration(seconds: float) -> str:
    """A time span for a column: rounded to the largest fitting unit, at most four characters: "95s", "3m", "2h"."""
    for unit, size, limit in (("s", 1, 100), ("m", 60, 100), ("h", 3600, 48), ("d", 86400, 1000)):
        if round(seconds / size) < limit:
            return f"{round(seconds / size)}{unit}"
    return f"{round(seconds / (365 * 86400))}y"


def _exponent(size: float) -> int:
    return math.floor(math.log10(size))
