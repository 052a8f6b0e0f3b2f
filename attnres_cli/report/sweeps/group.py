"""A group of runs: every arm's mean over the seeds, and every loss by seed."""

from __future__ import annotations

from typing import Any

from attnres_cli.report.document import Block
from attnres_cli.report.sweep_results import Results, SweepDocument
from attnres_cli.report.sweeps import arms
from attnres_cli.report.tables.sweep_arms import arms_table, seeds_table

SHOWS_IMPOSSIBLE = True


def blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    results = Results.of(document)
    by_seed = seeds_table(results)
    return [arms_table(results, width_columns), *([by_seed] if by_seed else []), *arms.findings(results)]


def plan_blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    return arms.plan_blocks(document, width_columns)


def payload(document: SweepDocument) -> dict[str, Any]:
    return arms.payload(document)
