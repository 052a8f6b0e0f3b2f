"""Block sizes, in order of size, beside the points of the paper's figure."""

from __future__ import annotations

from typing import Any

from attnres_cli.report.document import Block
from attnres_cli.report.sweep_results import Results, SweepDocument
from attnres_cli.report.sweeps import arms
from attnres_cli.report.tables.sweep_arms import arms_table, paper_table

SHOWS_IMPOSSIBLE = True


def blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    results = Results.of(document)
    beside = paper_table(results)
    return [arms_table(results, width_columns), *([beside] if beside else []), *arms.findings(results)]


def plan_blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    return arms.plan_blocks(document, width_columns)


def payload(document: SweepDocument) -> dict[str, Any]:
    return arms.payload(document)
