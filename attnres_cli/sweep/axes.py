"""The axes of a depth-width grid: d_model / L_b, and optionally heads / L_b.

L_b is the number of transformer blocks. A cell of the grid is asked for by its coordinates; which integer shape comes
closest at the matched size is `matching`'s business.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attnres_cli.errors import ExitCode, UserError


@dataclass(frozen=True, order=True)
class Coordinates:
    """Where a cell stands in the grid. ratio: d_model / L_b; head_ratio: heads / L_b, None where that is no axis."""

    ratio: float
    head_ratio: float | None = None

    @property
    def key(self) -> str:
        """A name for folders and tables: `r16`, or `r16-h0.5`."""
        return f"r{self.ratio:g}" + ("" if self.head_ratio is None else f"-h{self.head_ratio:g}")

    def __str__(self) -> str:
        head = "" if self.head_ratio is None else f", heads/L_b {self.head_ratio:g}"
        return f"d_model/L_b {self.ratio:g}{head}"


def parse_ratios(text: str, option: str) -> tuple[float, ...]:
    """Positive numbers separated by commas, in ascending order.

    option: how the user spelt it, for the message. Raises UserError (exit code 2) for anything else.
    """
    values = []
    for word in text.split(","):
        try:
            value = float(word)
        except ValueError:
            raise _bad_ratio(word.strip(), option, "is no number") from None
        if not math.isfinite(value) or value <= 0:
            raise _bad_ratio(word.strip(), option, "is not positive and finite")
        if value in values:
            raise _bad_ratio(word.strip(), option, "is given twice")
        values.append(value)
    return tuple(sorted(values))


def _bad_ratio(word: str, option: str, fault: str) -> UserError:
    return UserError(
        f"{option}: '{word}' {fault}.",
        where=option,
        expected="different positive numbers separated by commas",
        hint=f"{option} 8,16,32",
        exit_code=ExitCode.USAGE,
    )


def grid(ratios: Iterable[float], head_ratios: Sequence[float] = ()) -> tuple[Coordinates, ...]:
    """Every cell, row by row: rows are head ratios (one row where that axis is not swept), columns are ratios."""
    columns = sorted(ratios)
    rows: Sequence[float | None] = sorted(head_ratios) or (None,)
    return tuple(Coordinates(ratio, head_ratio) for head_ratio in rows for ratio in columns)
