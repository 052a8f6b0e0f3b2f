"""More layers at one width: every arm at every depth, and what each step deeper brings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attnres_cli.analysis.paired import FEWEST_PAIRS
from attnres_cli.report.document import Block
from attnres_cli.report.sweep_results import Contrast, Key, Results, SweepDocument, contrast, corrected
from attnres_cli.report.sweeps import arms
from attnres_cli.report.table import Cell, Column, Row, Table
from attnres_cli.report.tables.sweep_arms import arms_table

SHOWS_IMPOSSIBLE = True


def blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    results = Results.of(document)
    steps = steps_table(results)
    return [arms_table(results, width_columns), *([steps] if steps else []), *arms.findings(results)]


def plan_blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    return arms.plan_blocks(document, width_columns)


def payload(document: SweepDocument) -> dict[str, Any]:
    gains = _gains(Results.of(document))
    steps = [{"step": step, "arm": label, **each.to_dict()} for (step, label), each in gains.items()]
    return {**arms.payload(document), "steps": steps}


def steps_table(results: Results) -> Table | None:
    """Deeper minus shallower, by arm and step; None where there is one depth. A scheme saturates where the step is not
    shown or goes up."""
    gains = _gains(results)
    names = list(dict.fromkeys(step for step, _ in gains))
    if not names:
        return None
    rows: list[Row] = []
    for label in results.labels:
        rows.append({"arm": label, **{step: _cell(gains.get((step, label))) for step in names}})
        if results.num_seeds > 1:
            rows.append({"arm": "± 95 %", **{step: _half(gains.get((step, label))) for step in names}})
    columns = (
        Column("arm", "arm"),
        *(Column(step, step, kind="number", decimals=4, signed=True) for step in names),
    )
    remarks = ("Below zero: the deeper model is better. A step that is not shown (~), or above zero, is saturation.",)
    return Table("steps", "Each step deeper, Δ loss in transformer blocks", columns, tuple(rows), remarks=remarks)


def _gains(results: Results) -> Mapping[Key, Contrast]:
    """By (step such as "4→8", arm), corrected over all of them."""
    cells = sorted(results.document["cells"], key=lambda cell: cell["coordinates"]["transformer_blocks"])
    found: dict[Key, Contrast | None] = {}
    unfinished: list[Key] = []
    for low, high in zip(cells, cells[1:], strict=False):
        step = "→".join(str(cell["coordinates"]["transformer_blocks"]) for cell in (low, high))
        for label in results.labels:
            found[step, label] = contrast(results.losses(high["key"], label), results.losses(low["key"], label))
            if results.waits_for(high["key"], label) or results.waits_for(low["key"], label):
                unfinished.append((step, label))
    return corrected(found, unfinished)


def _cell(found: Contrast | None) -> Cell:
    if found is None:
        return Cell()
    return Cell(found.mean, text=found.text() if found.unfinished or found.n >= FEWEST_PAIRS else None)


def _half(found: Contrast | None) -> Cell:
    return Cell() if found is None or math.isnan(found.half) else Cell(found.half, text=f"{found.half:.4f}")
