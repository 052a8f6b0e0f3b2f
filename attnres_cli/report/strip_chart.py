"""The differences of all pairs as dots on one line per arm, with the mean and its interval below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnres_cli.report.phrases import nats

DOT = "•"
ZERO = "│"
# A label that is longer stands on a line of its own.
LONGEST_LABEL = 24


@dataclass(frozen=True)
class Strip:
    """values: one per pair. low, high: interval of their mean, None where there is none."""

    label: str
    values: tuple[float, ...]
    mean: float
    low: float | None = None
    high: float | None = None


def strip_chart(strips: Sequence[Strip], *, width_columns: int = 76) -> tuple[str, ...]:
    """The lines of the chart, each at most `width_columns` wide (at least 50). Zero is always on the scale.

    A cell holds a dot for one pair, a digit for up to nine and "#" for more.
    """
    assert width_columns >= 50
    if not strips:
        return ("nothing to draw: no pair has ended",)
    numbers = [0.0, *(number for strip in strips for number in _numbers(strip))]
    low, high = min(numbers), max(numbers)
    if low == high:
        low, high = -1e-4, 1e-4
    margin = min(LONGEST_LABEL, max(len(strip.label) for strip in strips)) + 2
    scale = _Scale(low, high, width_columns - margin)
    lines: list[str] = []
    for strip in strips:
        if len(strip.label) + 2 > margin:
            lines.append(strip.label[:width_columns])
        label = strip.label if len(strip.label) + 2 <= margin else ""
        lines.append(f"{label:<{margin}}{scale.dots(strip.values)}".rstrip())
        if strip.low is not None and strip.high is not None:
            lines.append(f"{'':<{margin}}{scale.interval(strip.low, strip.mean, strip.high)}".rstrip())
    lines += [" " * margin + each for each in scale.axis()]
    return tuple(lines)


def _numbers(strip: Strip) -> list[float]:
    return [*strip.values, *(limit for limit in (strip.low, strip.high) if limit is not None)]


@dataclass(frozen=True)
class _Scale:
    """The horizontal axis from low to high in so many columns."""

    low: float
    high: float
    columns: int

    def column(self, value: float) -> int:
        return round((value - self.low) / (self.high - self.low) * (self.columns - 1))

    def dots(self, values: Sequence[float]) -> str:
        counts: dict[int, int] = {}
        for value in values:
            counts[self.column(value)] = counts.get(self.column(value), 0) + 1
        cells = self._line()
        for column, count in counts.items():
            cells[column] = DOT if count == 1 else str(count) if count < 10 else "#"
        return "".join(cells)

    def interval(self, low: float, mean: float, high: float) -> str:
        cells = self._line()
        left, middle, right = (self.column(value) for value in (low, mean, high))
        cells[left : right + 1] = "─" * (right + 1 - left)
        cells[left], cells[right], cells[middle] = "├", "┤", "┼"
        return "".join(cells)

    def axis(self) -> list[str]:
        """The line under the strips and the numbers below it: both ends, and zero where it does not touch them."""
        zero = self.column(0.0)
        rule = ["─"] * self.columns
        rule[zero] = "┴"
        left, right = nats(self.low, signed=True), nats(self.high, signed=True)
        numbers = list(f"{left}{right:>{self.columns - len(left)}}")
        if len(left) < zero - 1 and zero + 1 < self.columns - len(right):
            numbers[zero] = "0"
        return ["".join(rule), "".join(numbers)]

    def _line(self) -> list[str]:
        cells = [" "] * self.columns
        cells[self.column(0.0)] = ZERO
        return cells
