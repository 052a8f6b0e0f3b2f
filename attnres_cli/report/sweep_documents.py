"""What `attnres sweep` prints: a sweep's result, its plan before anything runs, and where it stands."""

from __future__ import annotations

import shlex
from typing import Any

from attnres_cli.discovery import load
from attnres_cli.errors import plural
from attnres_cli.report.cell_rates import cell_rates
from attnres_cli.report.document import Block, Document, Notice
from attnres_cli.report.sweep_price import price
from attnres_cli.report.sweep_results import SweepDocument
from attnres_cli.report.table import Table
from attnres_cli.report.tables.cell_rates import rates_sentence, rates_table
from attnres_cli.report.tables.sweep_runs import impossible_table, status_table, unfinished_table


def sweep_document(document: SweepDocument, width_columns: int | None = None) -> Document:
    """What `attnres sweep show` prints: results as the sweep's report shows them, then every run without one.

    width_columns: of the terminal, None where nothing is folded.
    """
    shown = _report(document)
    blocks: list[Block] = [Notice(_headline(document), ())]
    if not any(run["status"] == "finished" for run in document["runs"]):
        blocks.append(Notice("No run has finished", (f"Go on with: {_resume_command(document)}",), "warning"))
    blocks += [
        *shown.blocks(document, width_columns),
        *_present(rates_table(document)),
        *_present(unfinished_table(document)),
        *([] if shown.SHOWS_IMPOSSIBLE else _present(impossible_table(document))),
    ]
    rates = [each.to_dict() for each in cell_rates(document).values()]
    facts = {"price": price(document), **shown.payload(document), **({"rates": rates} if rates else {})}
    return Document("sweep", tuple(blocks), {**document, **facts})


def plan_document(document: SweepDocument, width_columns: int | None = None) -> Document:
    """What `--dry-run` prints: what would be trained and what it costs, and everything impossible with its reason."""
    blocks: list[Block] = [
        *_report(document).plan_blocks(document, width_columns),
        *([Notice("Learning rates", (sentence,))] if (sentence := rates_sentence(document)) else []),
        *_present(impossible_table(document)),
    ]
    payload = {key: value for key, value in document.items() if key != "schema"}
    return Document("sweep-plan", tuple(blocks), {**payload, "price": price(document)})


def status_document(document: SweepDocument) -> Document:
    """What `attnres sweep status` prints: a line, and every run that has not finished."""
    counted: dict[str, int] = {}
    for run in document["runs"]:
        counted[run["status"]] = counted.get(run["status"], 0) + 1
    lines = [", ".join(f"{number} {status}" for status, number in counted.items())]
    if document["status"] in ("interrupted", "stale") or counted.get("failed"):
        lines.append(f"Go on with: {_resume_command(document)}")
    blocks: list[Block] = [Notice(_headline(document), tuple(lines)), *_present(status_table(document))]
    return Document("sweep-status", tuple(blocks), {**_summary(document), "counted": counted})


def _summary(document: SweepDocument) -> dict[str, Any]:
    return {key: document[key] for key in ("name", "kind", "status", "created", "runs")}


def _report(document: SweepDocument) -> Any:
    return load("report.sweeps", document["report"], what="report of a sweep")


def _headline(document: SweepDocument) -> str:
    finished = sum(run["status"] == "finished" for run in document["runs"])
    total = len(document["runs"])
    return f"{document['name']}: {document['status']}, {finished} of {total} {plural(total, 'run')} finished"


def _resume_command(document: SweepDocument) -> str:
    return f"attnres sweep resume {shlex.quote(document['name'])}"


def _present(table: Table | None) -> list[Block]:
    return [] if table is None else [table]
