"""A sweep that compares arms, in one cell or in several: one table, sorted by loss where there is one cell."""

from __future__ import annotations

from typing import Any

from attnres_cli.analysis.paired import FEWEST_PAIRS
from attnres_cli.report.document import Block, Notice
from attnres_cli.report.sweep_results import (
    OUTCOME_WORDS,
    Outcome,
    Results,
    SweepDocument,
    against_reference,
    is_unfinished,
)
from attnres_cli.report.tables.sweep_arms import arms_table, plan_table

SHOWS_IMPOSSIBLE = True


def blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    results = Results.of(document)
    return [arms_table(results, width_columns, by_loss=len(document["cells"]) == 1), *findings(results)]


def plan_blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    return [plan_table(Results.of(document))]


def payload(document: SweepDocument) -> dict[str, Any]:
    found = against_reference(Results.of(document))
    return {"differences": [{"cell": cell, "arm": label, **each.to_dict()} for (cell, label), each in found.items()]}


def findings(results: Results) -> list[Block]:
    """What the seeds show, in a sentence per outcome and cell; nothing where there are too few. An arm that waits for
    its first pair is named, too."""
    found = against_reference(results)
    reference = results.labels[0]
    if results.num_seeds < FEWEST_PAIRS:
        return []
    lines = []
    for cell in results.document["cells"]:
        by_outcome: dict[Outcome, list[str]] = {}
        for label in results.labels[1:]:
            if (cell["key"], label) in found:
                by_outcome.setdefault(found[cell["key"], label].outcome, []).append(label)
            elif is_unfinished(results, cell["key"], label):
                by_outcome.setdefault("unfinished", []).append(label)
        where = f"{cell['key']}: " if cell["key"] else ""
        if by_outcome:
            parts = [
                f"{words}: {', '.join(by_outcome[outcome])}"
                for outcome, words in OUTCOME_WORDS.items()
                if outcome in by_outcome
            ]
            lines.append(f"{where}against {reference}, {'; '.join(parts)}.")
    return [Notice("What the seeds show", tuple(lines), "result")] if lines else []
