"""A scaling sweep: every size and scheme, and the power law of each scheme."""

from __future__ import annotations

from typing import Any

from attnres_cli.analysis.power_law import FEWEST_SIZES
from attnres_cli.report.document import Block, Notice
from attnres_cli.report.sweep_law_chart import laws_chart
from attnres_cli.report.sweep_results import Results, SweepDocument
from attnres_cli.report.sweeps import arms
from attnres_cli.report.tables.sweep_arms import arms_table
from attnres_cli.report.tables.sweep_laws import Laws, laws_table

SHOWS_IMPOSSIBLE = True


def blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    results = Results.of(document)
    laws = Laws.of(results)
    if laws is None:
        reason = f"A law needs {FEWEST_SIZES} sizes that every scheme has finished with every seed."
        fitted: list[Block] = [Notice("No power law", (reason,), "warning")]
    else:
        fitted = [laws_chart(laws, width_columns), laws_table(results, laws)]
    return [arms_table(results, width_columns), *fitted, *arms.findings(results)]


def plan_blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    rule = Notice("Sizes", (_sizes(document), document["facts"]["learning_rate_rule"]))
    return [*arms.plan_blocks(document, width_columns), rule]


def payload(document: SweepDocument) -> dict[str, Any]:
    laws = Laws.of(Results.of(document))
    return {**arms.payload(document), "laws": None if laws is None else laws.to_dict()}


def _sizes(document: SweepDocument) -> str:
    shapes = [cell["facts"]["shape"] for cell in document["cells"]]
    words = ", ".join(f"{shape['transformer_blocks']} × {shape['d_model']}" for shape in shapes)
    ratio = document["facts"]["tokens_per_parameter"]
    return f"Transformer blocks × width: {words}; {ratio:g} tokens per non-embedding parameter."
