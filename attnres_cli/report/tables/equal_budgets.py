"""The paired difference at equal tokens, at equal FLOPs and at equal seconds, side by side."""

from __future__ import annotations

from attnres_cli.analysis.paired import PairedDifference
from attnres_cli.report.budgets import AtEqual
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.paired_verdicts import PairedVerdict, paired_verdicts
from attnres_cli.report.phrases import nats, times
from attnres_cli.report.table import Cell, Column, Row, Table

COMPARISON_ORDER = 23


def build(comparison: Comparison) -> Table | None:
    """Three rows per arm with a difference; None for single runs and where no arm has one."""
    if not comparison.by_seed:
        return None
    judged = [each for each in paired_verdicts(comparison) if each.difference is not None]
    if not judged:
        return None
    return Table(
        key="equal_budgets",
        title="Equal what?",
        columns=(
            Column("arm", "arm"),
            Column("equal", "at equal"),
            Column("delta_nats", "Δ", "nats", "number", decimals=4, signed=True),
            Column("low_nats", "low", "95 %", "number", decimals=4, signed=True),
            Column("high_nats", "high", "95 %", "number", decimals=4, signed=True),
            Column("cost", "cost"),
            Column("read_at_tokens", "read at", "tokens", "count"),
        ),
        rows=tuple(row for each in judged for row in _rows(each)),
        caption="cost: what the arm takes per token over the baseline; an arm that leads and is dearer is read early, "
        "where it had spent what the other one did in all: before its learning rate had decayed, which can hide an "
        "advantage, not invent one; ≤, ≥: so the figures of the row are bounds",
        remarks=() if comparison.bench else (f"equal seconds: not known ({comparison.bench_note or 'no bench'})",),
    )


def _rows(verdict: PairedVerdict) -> list[Row]:
    cells = {"arm": verdict.arm, "equal": "tokens", **_difference(verdict.difference), "read_at_tokens": verdict.tokens}
    return [cells, *(_budget(verdict, each) for each in verdict.at_equal)]


def _budget(verdict: PairedVerdict, found: AtEqual) -> Row:
    cheaper = found.difference is not None and found.early is None
    note = "the arm that leads is the cheaper one: the difference is at least that at equal tokens"
    early = (
        f"{found.early} was not evaluated within this budget; eval.every_steps says how often"
        if found.early and found.difference is None
        else None
    )
    return {
        "arm": verdict.arm,
        "equal": Cell(found.budget, note=note if cheaper else early),
        **_difference(found.difference),
        "delta_nats": _bounded(found),
        "cost": None if found.cost is None else times(found.cost),
        "read_at_tokens": verdict.tokens if cheaper else found.tokens,
    }


def _difference(difference: PairedDifference | None) -> Row:
    return {
        "delta_nats": None if difference is None else difference.mean,
        "low_nats": None if difference is None else difference.low,
        "high_nats": None if difference is None else difference.high,
    }


def _bounded(found: AtEqual) -> Cell:
    if found.difference is None or found.bound is None:
        return Cell(None)
    mean = found.difference.mean
    return Cell(mean, text=f"{'≤' if found.bound == 'upper' else '≥'} {nats(mean, signed=True)}")
