"""Validation loss of single runs: where the schedule ends, and where all runs have seen the same number of tokens."""

from __future__ import annotations

from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.numbers import short_count
from attnres_cli.report.table import Cell, Column, Row, Table
from attnres_cli.runs.metrics import at_tokens, number

COMPARISON_ORDER = 30


def build(comparison: Comparison) -> Table | None:
    """Δ is the run minus the baseline. Perplexity and bits per byte belong to the last evaluation, as the first loss
    does. None for arms of several runs, which have a table of their own (loss_by_arm.py)."""
    if comparison.by_seed:
        return None
    tokens = comparison.equal_tokens
    return Table(
        key="loss",
        title="Validation loss",
        columns=(
            Column("run", "run"),
            Column("loss_nats", "last step", "nats", "number", decimals=4),
            Column("loss_delta_nats", "Δ", "nats", "number", decimals=4, signed=True),
            Column("equal_tokens_loss_nats", _at(tokens), "tokens", "number", decimals=4),
            Column("equal_tokens_loss_delta_nats", "Δ", "nats", "number", decimals=4, signed=True),
            Column("perplexity", "perplexity", "", "number", decimals=3),
            Column("bits_per_byte", "bits/byte", "", "number", decimals=4),
        ),
        rows=tuple(_row(comparison, run, tokens) for run in comparison.runs),
        caption=f"losses in nats per token; {_explained(tokens)}; Δ: the run minus {comparison.baseline.label}",
    )


def _explained(tokens: int | None) -> str:
    if tokens is None:
        return "there is no token count at which all were evaluated"
    return f"{_at(tokens)}: after {tokens:,} training tokens, the most at which all were evaluated"


def _at(tokens: int | None) -> str:
    return "at equal" if tokens is None else f"at {short_count(tokens)}"


def _row(comparison: Comparison, run: ComparedRun, tokens: int | None) -> Row:
    last = run.last_evaluation
    equal = at_tokens(run.evaluations, tokens) if tokens is not None else None
    baseline_equal = at_tokens(comparison.baseline.lead.evaluations, tokens) if tokens is not None else None
    # A difference between two last steps means something only where they are the same step.
    baseline_last = comparison.baseline.lead.last_evaluation
    if last is None or baseline_last is None or last.get("tokens") != baseline_last.get("tokens"):
        baseline_last = None
    return {
        "run": run.title,
        "loss_nats": run.cell(number(last, "loss"), _early(run)),
        "loss_delta_nats": _delta(comparison, run, number(last, "loss"), number(baseline_last, "loss")),
        "equal_tokens_loss_nats": run.cell(number(equal, "loss")),
        "equal_tokens_loss_delta_nats": _delta(comparison, run, number(equal, "loss"), number(baseline_equal, "loss")),
        "perplexity": run.cell(number(last, "perplexity")),
        # Null by design where a corpus has no text (tokens, synthetic): absent then, even in a run that failed later.
        "bits_per_byte": Cell(None) if last and "bits_per_byte" in last and last["bits_per_byte"] is None
        else run.cell(number(last, "bits_per_byte")),
    }  # fmt: skip


def _delta(comparison: Comparison, run: ComparedRun, ours: float | None, theirs: float | None) -> Cell:
    if run is comparison.baseline.lead:
        return Cell(None, text="base")
    return run.cell(ours - theirs if ours is not None and theirs is not None else None)


def _early(run: ComparedRun) -> str | None:
    """A note for a loss that is not the end of the run's schedule."""
    last = run.last_evaluation
    if last is None or (run.is_finished and last["step"] == run.steps):
        return None
    return f"{run.label}: {run.where_it_stands()}; this is its evaluation at step {last['step']}"
