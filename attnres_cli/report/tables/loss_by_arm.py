"""Validation loss of arms of several runs: the mean at the end of the schedule, and its interval."""

from __future__ import annotations

import math

from attnres_cli.analysis.paired import mean_interval, standard_deviation
from attnres_cli.report.arms import Arm, mean_or_none
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.table import Column, Row, Table
from attnres_cli.runs.metrics import at_tokens, number

COMPARISON_ORDER = 31


def build(comparison: Comparison) -> Table | None:
    """None for single runs, which have a table of their own (loss.py)."""
    if not comparison.by_seed:
        return None
    tokens = comparison.equal_tokens
    return Table(
        key="loss",
        title="Validation loss, mean over the runs of an arm",
        columns=(
            Column("arm", "arm"),
            Column("runs", "n", kind="count"),
            Column("loss_nats", "loss", "nats", "number", decimals=4),
            Column("low_nats", "low", "95 %", "number", decimals=4),
            Column("high_nats", "high", "95 %", "number", decimals=4),
            Column("standard_deviation_nats", "SD", "nats", "number", decimals=4),
            Column("perplexity", "perplexity", "", "number", decimals=3),
            Column("bits_per_byte", "bits/byte", "", "number", decimals=4),
            *(() if _ends_everywhere(comparison) else (_at_equal(),)),
        ),
        rows=tuple(_row(comparison, arm, tokens) for arm in comparison.arms),
        caption=_caption(comparison, tokens),
        remarks=tuple(remark for arm in comparison.arms for remark in _lost(arm)),
    )


def ends(arm: Arm) -> list[float]:
    """Losses at the end of the schedule of the runs that reached it."""
    return [loss for run in arm.runs if (loss := run.end_loss) is not None]


def _at_equal() -> Column:
    return Column("equal_tokens_loss_nats", "at equal", "tokens", "number", decimals=4)


def _ends_everywhere(comparison: Comparison) -> bool:
    return all(run.end_loss is not None for run in comparison.runs)


def _caption(comparison: Comparison, tokens: int | None) -> str:
    text = (
        "nats per token at the end of the schedule, with the interval of the mean (Student's t); the spread of an arm "
    )
    text += "is mostly its seeds', which cancels in the pairs above"
    if _ends_everywhere(comparison):
        return text
    if tokens is None:
        return f"{text}; there is no token count at which all runs were evaluated"
    return f"{text}; at equal tokens: all runs after {tokens:,} training tokens, the most at which all were evaluated"


def _row(comparison: Comparison, arm: Arm, tokens: int | None) -> Row:
    losses = ends(arm)
    mean, low, high = mean_interval(losses) if losses else (None, math.nan, math.nan)
    equal = [number(at_tokens(run.evaluations, tokens or 0), "loss") for run in arm.runs if run.last_evaluation]
    known = [loss for loss in equal if loss is not None]
    return {
        "arm": arm.title,
        "runs": len(losses),
        "loss_nats": arm.cell(mean),
        "low_nats": None if math.isnan(low) else low,
        "high_nats": None if math.isnan(high) else high,
        "standard_deviation_nats": standard_deviation(losses) if len(losses) > 1 else None,
        "perplexity": arm.cell(_mean_at_end(arm, "perplexity")),
        "bits_per_byte": arm.cell(_mean_at_end(arm, "bits_per_byte")),
        "equal_tokens_loss_nats": arm.cell(mean_or_none(known) if tokens is not None else None),
    }


def _mean_at_end(arm: Arm, key: str) -> float | None:
    """Over the runs that ended; None when one of them does not say (a corpus without text has no bits per byte)."""
    return arm.mean(lambda run: number(run.end_evaluation, key))


def _lost(arm: Arm) -> list[str]:
    """Runs whose loss is in no mean."""
    lost = [run.label for run in arm.runs if run.end_loss is None]
    return [f"{arm.label}: without {', '.join(lost)}"] if lost else []
