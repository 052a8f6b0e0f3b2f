"""CSV: the tables at full precision in base units, the header row is the keys of JSON.

Several tables follow one another, each after a line "# <key>" and with an empty line between; a single table is pure
CSV. An absent value is an empty field and a failed one "!". Sentences and charts are left out.
"""

from __future__ import annotations

import csv
import io

from attnres_cli.report.document import Document
from attnres_cli.report.table import FAILED, Table
from attnres_cli.report.visible import visible


def render(document: Document, *, width_columns: int | None = None, colour: bool = False) -> str:
    tables = document.tables
    if len(tables) == 1:
        return "".join(map(_one_table, tables.values()))
    return "\n".join(f"# {key}\n{_one_table(table)}" for key, table in tables.items())


def _one_table(table: Table) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([column.key for column in table.columns])
    for row in table.rows:
        cells = [table.cell(row, column) for column in table.columns]
        writer.writerow([FAILED if cell.failed else _field(cell.value) for cell in cells])
    return buffer.getvalue()


def _field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else visible(value)
