"""From values to cells of characters, and the numbers beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnres_cli.report.numbers import short_count
from attnres_cli.report.picture import Axis


@dataclass(frozen=True)
class Scale:
    """So many cells from low to high; both positive where it is logarithmic."""

    low: float
    high: float
    cells: int
    logarithmic: bool = False

    @classmethod
    def around(cls, low: float, high: float, cells: int, *, logarithmic: bool = False) -> Scale:
        """A single value stands in the middle."""
        if low == high:
            if logarithmic:
                return cls(low / 2, high * 2, cells, True)
            margin = 0.5 * abs(low) or 1.0
            low, high = low - margin, high + margin
        return cls(low, high, cells, logarithmic)

    def place(self, value: float) -> float:
        """0 at low, cells − 1 at high; beyond them outside."""
        if self.logarithmic:
            if value <= 0:
                return -1.0
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return share * (self.cells - 1)

    def cell(self, value: float) -> int | None:
        """The cell of a value, None outside."""
        place = round(self.place(value))
        return place if 0 <= place < self.cells else None

    def clamped(self, value: float) -> int:
        return min(self.cells - 1, max(0, round(self.place(value))))

    def value(self, cell: float) -> float:
        """What stands at a cell."""
        share = cell / (self.cells - 1) if self.cells > 1 else 0.0
        if self.logarithmic:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + share * (self.high - self.low)

    def label(self, cell: float, axis: Axis) -> str:
        """The value at a cell, as precise as a few cells are apart."""
        value = self.value(cell)
        if self.logarithmic or "FLOPs" in axis.text:
            return number(value)
        if abs(value) >= 1e6 or self.high - self.low >= 1e4:
            return short_count(value)
        decimals = min(6, max(0, 1 - math.floor(math.log10((self.high - self.low) / 4))))
        text = f"{value:.{decimals}f}"
        return text.removeprefix("-") if float(text) == 0 else text


def number(value: float) -> str:
    """Three significant digits, without a long tail of zeros."""
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):
        return f"{value:.2g}"
    return f"{value:.3g}"
