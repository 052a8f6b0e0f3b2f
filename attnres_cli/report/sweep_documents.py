"""What `attnres sweep` prints: a sweep's result, and its plan before anything runs."""

from __future__ import annotations

import shlex

from attnres_cli.report.document import Block, Document, Notice
from attnres_cli.report.sweep import Grid, SweepDocument, lowest_facts, lowest_sentences
from attnres_cli.report.table import Table
from attnres_cli.report.tables.sweep_cells import cells_table, impossible_table, unfinished_table
from attnres_cli.report.tables.sweep_grid import difference_grids, loss_grids


def sweep_document(document: SweepDocument, width_columns: int | None = None) -> Document:
    """What `attnres sweep show` prints: the grids, the sentence about the lowest cells, and every cell's numbers.

    A grid without a single result is left out. width_columns: of the terminal, None where nothing is folded.
    """
    grid = Grid.of(document)
    grids = [table for table in (*loss_grids(grid), *difference_grids(grid)) if _says_something(table)]
    blocks: list[Block] = [Notice(_headline(document), ()), *grids]
    if any(run["status"] == "finished" for run in document["runs"]):
        blocks.append(Notice("Lowest cell", tuple(lowest_sentences(grid)), "result" if grid.compared() else "warning"))
    else:
        blocks.append(Notice("No run has finished", (f"Go on with: {_resume_command(document)}",), "warning"))
    blocks += [
        cells_table(grid, width_columns),
        *_present(unfinished_table(grid)),
        *_present(impossible_table(document)),
    ]
    payload = {**{key: value for key, value in document.items() if key != "schema"}, "lowest": lowest_facts(grid)}
    return Document("sweep", tuple(blocks), payload)


def plan_document(document: SweepDocument, width_columns: int | None = None) -> Document:
    """What `--dry-run` prints: every cell with its real numbers, every impossible cell with its reason."""
    grid = Grid.of(document)
    blocks: list[Block] = [cells_table(grid, width_columns), *_present(impossible_table(document))]
    return Document("sweep-plan", tuple(blocks), {key: value for key, value in document.items() if key != "schema"})


def _headline(document: SweepDocument) -> str:
    finished = sum(run["status"] == "finished" for run in document["runs"])
    return f"{document['name']}: {document['status']}, {finished} of {len(document['runs'])} runs finished"


def _says_something(grid: Table) -> bool:
    """Whether some cell of the grid has a result, if only that its run failed."""
    cells = [grid.cell(row, column) for row in grid.rows for column in grid.columns[1:]]
    return any(cell.failed or cell.value is not None for cell in cells)


def _resume_command(document: SweepDocument) -> str:
    return f"attnres sweep resume {shlex.quote(document['name'])}"


def _present(table: Table | None) -> list[Block]:
    return [] if table is None else [table]
