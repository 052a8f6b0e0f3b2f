"""The verdict on every arm of several runs: paired difference, interval, p, and what the design could have shown."""

from __future__ import annotations

from collections.abc import Sequence

from attnres_cli.report.comparison import Comparison
from attnres_cli.report.paired_verdicts import PairedVerdict, paired_verdicts
from attnres_cli.report.phrases import probability
from attnres_cli.report.rates import rates
from attnres_cli.report.table import Cell, Column, Row, Table

COMPARISON_ORDER = 21
WORDS = {"not shown": "~"}


def build(comparison: Comparison) -> Table | None:
    """One row per arm but the baseline; None for single runs."""
    if not comparison.by_seed:
        return None
    judged = paired_verdicts(comparison)
    several = any(each.tested > 1 for each in judged)
    return Table(
        key="verdict",
        title=f"Loss against {comparison.baseline.label}, paired by seed",
        columns=(
            Column("arm", "arm"),
            Column("pairs", "n", kind="count"),
            Column("delta_nats", "Δ", "nats", "number", decimals=4, signed=True),
            Column("low_nats", "low", "95 %", "number", decimals=4, signed=True),
            Column("high_nats", "high", "95 %", "number", decimals=4, signed=True),
            Column("p", "p", "", "number"),
            *((Column("p_holm", "p Holm", "", "number"),) if several else ()),
            Column("smallest_detectable_nats", "finds", "nats", "number", decimals=4),
            Column("outcome", "verdict"),
        ),
        rows=tuple(_row(each) for each in judged),
        caption="Δ: mean over the pairs of the arm's loss minus the baseline's, at the end of the schedule; "
        "Student's t; finds: the least difference that so many pairs with this spread show four times in five",
        remarks=tuple(_remarks(comparison, judged)),
    )


def _remarks(comparison: Comparison, judged: Sequence[PairedVerdict]) -> list[str]:
    """The plan, what is beyond or left out of it, the learning rates."""
    titles = comparison.origins.titles
    exploratory = [each.arm for each in judged if each.exploratory]
    counted_in = next((each.counted_in for each in judged if each.counted_in), ())
    return [
        *([titles] if titles else []),
        *([f"exploratory: {', '.join(exploratory)}"] if exploratory else []),
        *([f"p Holm counts in: {', '.join(counted_in)}"] if counted_in else []),
        *rates(comparison),
    ]


def _row(verdict: PairedVerdict) -> Row:
    difference = verdict.difference
    return {
        "arm": verdict.arm,
        "pairs": len(verdict.seeds),
        "delta_nats": None if difference is None else difference.mean,
        "low_nats": None if difference is None else difference.low,
        "high_nats": None if difference is None else difference.high,
        "p": _p(difference.p if difference is not None and verdict.has_verdict else None),
        "p_holm": _p(verdict.p_holm if verdict.has_verdict else None),
        "smallest_detectable_nats": verdict.smallest_detectable,
        "outcome": Cell(verdict.outcome, text=WORDS.get(verdict.outcome)),
    }


def _p(p: float | None) -> Cell:
    return Cell(p, text=None if p is None else probability(p).removeprefix("= ").replace("< ", "<"))
