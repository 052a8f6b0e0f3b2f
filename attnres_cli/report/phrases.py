"""Figures inside the sentences of a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from attnres_cli.errors import plural

MOST_NAMED = 8


def nats(size: float, *, signed: bool = False) -> str:
    """Four decimals as in the tables; a difference that they would hide is written out."""
    sign = "+" if signed and size else ""
    return f"{size:{sign}.4f}" if abs(size) >= 0.00005 or size == 0 else f"{size:{sign}.1e}"


def times(ratio: tuple[float, float]) -> str:
    """ "1.02×", or with both ends "1.27 to 1.34×"."""
    low, high = (f"{limit:.3g}" for limit in ratio)
    return f"{low}×" if low == high else f"{low} to {high}×"


def probability(p: float) -> str:
    """A p-value in two significant digits: "= 0.032", "< 0.0001"."""
    return "< 0.0001" if p < 0.0001 else f"= {p:.2g}"


def interval(low: float, high: float) -> str:
    return f"{nats(low, signed=True)} to {nats(high, signed=True)}"


def listed(names: Sequence[str], *, most: int = MOST_NAMED) -> str:
    """Names with commas, the first few of a long list; JSON has all of them."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def counted(count: int, noun: str) -> str:
    """ "1 pair", "5 pairs"."""
    return f"{count} {plural(count, noun)}"
