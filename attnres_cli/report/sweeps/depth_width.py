"""A depth-width sweep: one grid per scheme, the differences, where the lowest cells and the smooth optima are, and
every cell's numbers."""

from __future__ import annotations

from typing import Any

from attnres_cli.report.document import Block, Notice
from attnres_cli.report.sweep_grid import Grid, lowest_facts, lowest_sentences
from attnres_cli.report.sweep_optimum import Optima, moved_sentences
from attnres_cli.report.sweep_results import SweepDocument, seeds_remarks
from attnres_cli.report.table import Table
from attnres_cli.report.tables.sweep_cells import cells_table
from attnres_cli.report.tables.sweep_grid import difference_grids, loss_grids
from attnres_cli.report.tables.sweep_optimum import optimum_table

SHOWS_IMPOSSIBLE = False


def blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    """A grid without a single result is left out."""
    grid = Grid.of(document)
    found: list[Block] = [table for table in (*loss_grids(grid), *difference_grids(grid)) if _says_something(table)]
    if any(run["status"] == "finished" for run in document["runs"]):
        optima = Optima.of(grid)
        table = optimum_table(grid, optima)
        found += [table] if table else []
        lines = [*lowest_sentences(grid), *moved_sentences(grid, optima)]
        lines += seeds_remarks(grid.results) if grid.pairs > 1 else []
        found.append(Notice("Lowest cell", tuple(lines), "result" if grid.compared() else "warning"))
    return [*found, cells_table(grid, width_columns)]


def plan_blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    """Every cell with its real numbers."""
    return [cells_table(Grid.of(document), width_columns)]


def payload(document: SweepDocument) -> dict[str, Any]:
    grid = Grid.of(document)
    differences = [
        {"cell": cell, "arm": label, **each.to_dict()} for (cell, label), each in sorted(grid.differences.items())
    ]
    return {"lowest": lowest_facts(grid), "optimum": Optima.of(grid).to_dict(), "differences": differences}


def _says_something(grid: Table) -> bool:
    """Whether some cell of the grid has a result, if only that its run failed."""
    cells = [grid.cell(row, column) for row in grid.rows for column in grid.columns[1:]]
    return any(cell.failed or cell.value is not None for cell in cells)
