"""Causal importance: what leaving a source out costs, beside how much of it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attnres_cli.report.probed_run import ProbedRun
from attnres_cli.report.probes._side_by_side import estimate
from attnres_cli.report.table import Column, Row, Table
from attnres_cli.runs.metrics import number

PROBE = "importance"


def tables(runs: Sequence[ProbedRun]) -> Iterator[Table]:
    for kind, heading, title in (
        ("families", "family", "Importance of source families"),
        ("sources", "source", "Importance of sources"),
    ):
        rows = tuple(_row(run, found) for run in runs for found in run.summary(PROBE).get(kind, []))
        if rows:
            yield Table(
                f"importance_of_{kind}",
                title,
                (
                    Column("run", "run"),
                    Column("source", heading),
                    Column("mean_weight", "weight", "mean", "number", decimals=3),
                    Column("delta_nats", "Δloss without it", "nats [95 %]", "number", decimals=4, signed=True),
                ),
                rows,
                "loss without it, the choice made among the rest, minus loss of the whole model, sequence by "
                "sequence; ~: not shown to differ from zero",
            )


def _row(run: ProbedRun, found: Mapping[str, Any]) -> Row:
    return {
        "run": run.label,
        "source": str(found.get("source", found.get("family", "?"))),
        "mean_weight": number(found, "mean_weight"),
        "delta_nats": estimate(number(found, "delta"), number(found, "low"), number(found, "high")),
    }
