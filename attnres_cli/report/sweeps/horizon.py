"""A horizon ladder: losses at decayed ends, Δ by horizon with every seed as a dot, compute multipliers, and what they
come to in sentences."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from attnres_cli.report.document import Block, Chart, Notice
from attnres_cli.report.horizon import Ladder, Rung
from attnres_cli.report.phrases import probability
from attnres_cli.report.strip_chart import DOT, Strip, strip_chart
from attnres_cli.report.sweep_results import UNFINISHED, Contrast, SweepDocument, seeds_remarks
from attnres_cli.report.tables.horizon import differences_table, losses_table, multipliers_table, rungs_table

SHOWS_IMPOSSIBLE = False
OUTCOMES = {
    "lower": "lower, shown",
    "higher": "higher, shown",
    "not shown": "not shown",
    "too few": "too few pairs for a verdict",
    "diverged": "no verdict, the better arm lost runs that diverged",
    "unfinished": f"unfinished ({UNFINISHED}), no verdict yet",
}
WIDEST = 100
NARROWEST = 50


def blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    """Nothing without a finished run, and no differences without a second scheme."""
    ladder = Ladder(document)
    if not any(ladder.losses(label, rung) for label in ladder.labels for rung in ladder.rungs):
        return []
    found: list[Block] = [losses_table(ladder)]
    if ladder.contrasts:
        sentences = [*_sentences(ladder), *seeds_remarks(ladder.results)[:1]]
        found += [differences_table(ladder), *_charts(ladder, width_columns), multipliers_table(ladder)]
        found.append(Notice("At the end of the decay", tuple(sentences), "result"))
    return found


def plan_blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    """Every rung with what it trains and costs."""
    return [rungs_table(document)]


def payload(document: SweepDocument) -> dict[str, Any]:
    """What the tables say, at full precision."""
    ladder = Ladder(document)
    trends = {label: ladder.trend(label) for label in ladder.labels[1:]}
    return {
        "differences": [
            {"cell": cell, "arm": label, **found.to_dict()} for (cell, label), found in ladder.contrasts.items()
        ],
        "multipliers": [
            {"cell": rung.key, "arm": label, **asdict(found)}
            for label in ladder.labels[1:]
            for rung in ladder.rungs
            if (found := ladder.multiplier(label, rung)) is not None
        ],
        "nats_per_doubling": {label: found.to_dict() for label, found in trends.items() if found is not None},
    }


def _sentences(ladder: Ladder) -> list[str]:
    """Per scheme: Δ at the preset's own horizon, what it is worth in compute, and how it moves."""
    own, reference = ladder.own_rung, ladder.reference
    found = []
    for label in ladder.labels[1:]:
        difference, multiplier, trend = ladder.contrast(label, own), ladder.multiplier(label, own), ladder.trend(label)
        if difference is not None:
            found.append(
                f"{label} at {own.ratio:g} × the tokens: Δ {_nats(difference)} nats against {reference}, "
                f"{_outcome(difference)}."
            )
        if multiplier is not None:
            found.append(f"Compute that {reference} needs for the loss of {label}: {multiplier.words} as much.")
        if trend is not None:
            moves = {"lower": "falls, shown", "higher": "rises, shown"}.get(trend.outcome, OUTCOMES[trend.outcome])
            found.append(f"With every doubling of the tokens its Δ changes by {_nats(trend)} nats: {moves}.")
    return found


def _outcome(found: Contrast) -> str:
    """With the p that decided it, which counts every rung and scheme."""
    words = OUTCOMES[found.outcome]
    return (
        words
        if found.outcome in ("too few", "unfinished")
        else f"{words} (p {probability(found.p)} after Holm's correction)"
    )


def _nats(found: Contrast) -> str:
    """ "+0.0012 (-0.0010 to +0.0034)"; a single pair has no interval."""
    if math.isnan(found.half):
        return f"{found.mean:+.4f}"
    return f"{found.mean:+.4f} ({found.mean - found.half:+.4f} to {found.mean + found.half:+.4f})"


def _charts(ladder: Ladder, width_columns: int | None) -> list[Chart]:
    """Per scheme one line of dots for every rung: Δ by seed, with its mean and interval."""
    width = max(NARROWEST, min(width_columns or 76, WIDEST) - 2)
    return [
        Chart(f"Δ loss of {label} by horizon, nats", strip_chart(strips, width_columns=width), markers=DOT)
        for label in ladder.labels[1:]
        if (strips := [strip for rung in ladder.rungs if (strip := _strip(ladder, label, rung)) is not None])
    ]


def _strip(ladder: Ladder, label: str, rung: Rung) -> Strip | None:
    found = ladder.contrast(label, rung)
    if found is None:
        return None
    values = tuple(ladder.deltas(label, rung).values())
    ends = (None, None) if math.isnan(found.half) else (found.mean - found.half, found.mean + found.half)
    return Strip(f"{rung.ratio:g} ×", values, found.mean, *ends)
