"""A table without a look: columns, values and notes. Every output format is made from the same table.

A value is a number at full precision in the column's base unit (bytes, seconds, nats), a text, a truth value, or None
for "not recorded". How it is shown (decimals, larger unit, "—" and "!") is decided here, once, for all formats that
people read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from attnres_cli.report.numbers import NumberFormat, byte_unit, format_for
from attnres_cli.report.visible import visible

Value = float | int | str | bool | None
Kind = Literal["text", "number", "count", "bytes"]
# Spaces between two columns of a table for a terminal.
COLUMN_GAP = 2
ABSENT = "—"
FAILED = "!"


@dataclass(frozen=True)
class Column:
    """One column.

    key: its name in JSON and CSV, ending in the base unit where there is one ("step_seconds"). heading: for people.
    unit: shown under the heading; for kind "bytes" it is chosen by the largest value. scale: shown number = value ×
    scale (1000 shows seconds as milliseconds). decimals: fixed; None chooses them so that the largest value has
    `digits` significant digits. signed: a plus before positive numbers.
    """

    key: str
    heading: str
    unit: str = ""
    kind: Kind = "text"
    decimals: int | None = None
    digits: int = 3
    scale: float = 1.0
    signed: bool = False

    @property
    def is_numeric(self) -> bool:
        return self.kind != "text"


@dataclass(frozen=True)
class Cell:
    """A value with something to say about it.

    text: shown instead of the formatted value. note: a sentence that becomes a numbered footnote, each once per table.
    failed: there is no value because something went wrong; shown as "!". heat: 0 (lowest) to 1 (highest of a scale that
    whoever builds the table chose), shown as a colour where there are colours (report/heat.py).
    """

    value: Value = None
    text: str | None = None
    note: str | None = None
    failed: bool = False
    heat: float | None = None


Row = Mapping[str, "Value | Cell"]


@dataclass(frozen=True)
class Shown:
    """A table as people read it: all strings.

    rows and marks: one list per row, one text per column; a mark ("[1]", or "") points to one of the numbered notes.
    """

    headings: list[str]
    units: list[str]
    rows: list[list[str]]
    marks: list[list[str]]
    notes: list[str]


@dataclass(frozen=True)
class Table:
    """key: its name in JSON and for `--table`. remarks: sentences under the table, not tied to a cell. folds: False
    for a table whose last column must stay one word even where it is wider than the terminal."""

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    caption: str = ""
    remarks: tuple[str, ...] = field(default=())
    folds: bool = True

    def cell(self, row: Row, column: Column) -> Cell:
        value = row.get(column.key)
        return value if isinstance(value, Cell) else Cell(value)

    @property
    def notes(self) -> list[str]:
        """The sentences of all cells in reading order, each once."""
        cells = (self.cell(row, column) for row in self.rows for column in self.columns)
        return list(dict.fromkeys(cell.note for cell in cells if cell.note))

    @property
    def width_columns(self) -> int:
        """What the whole table takes of a terminal, indented below its title."""
        shown = self.shown()
        widths = []
        for index, heading in enumerate(shown.headings):
            cells = [f"{row[index]} {mark[index]}".rstrip() for row, mark in zip(shown.rows, shown.marks, strict=True)]
            widths.append(max(map(len, (heading, shown.units[index], *cells))))
        return sum(widths) + COLUMN_GAP * (len(widths) - (not self.title))

    def shown(self) -> Shown:
        notes = self.notes
        columns = [self._shown_column(column) for column in self.columns]
        return Shown(
            headings=[visible(column.heading) for column in self.columns],
            units=[unit for unit, _ in columns],
            rows=[[cells[index] for _, cells in columns] for index in range(len(self.rows))],
            marks=[[_mark(self.cell(row, column), notes) for column in self.columns] for row in self.rows],
            notes=[f"[{number}] {visible(note)}" for number, note in enumerate(notes, start=1)],
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON at full precision; a failed cell is null and its key is listed in the row's
        "failed"."""
        rows = []
        for row in self.rows:
            cells = {column.key: self.cell(row, column) for column in self.columns}
            plain: dict[str, Any] = {key: cell.value for key, cell in cells.items()}
            failed = [key for key, cell in cells.items() if cell.failed]
            rows.append({**plain, "failed": failed} if failed else plain)
        return {
            "title": self.title,
            "caption": self.caption,
            "columns": [{"key": column.key, "heading": column.heading} for column in self.columns],
            "rows": rows,
            "notes": [*self.notes, *self.remarks],
        }

    def _shown_column(self, column: Column) -> tuple[str, list[str]]:
        """(unit, one text per row)"""
        cells = [self.cell(row, column) for row in self.rows]
        numbers = [number for cell in cells if (number := _number(cell.value)) is not None]
        unit, scale = column.unit, column.scale
        if column.kind == "bytes":
            unit, size = byte_unit(numbers)
            scale = 1 / size
        if column.kind == "count":
            show = NumberFormat(0, column.signed)
        elif column.decimals is not None:
            show = NumberFormat(column.decimals, column.signed)
        else:
            show = format_for((number * scale for number in numbers), digits=column.digits, signed=column.signed)
        return unit, [_shown_cell(cell, scale, show) for cell in cells]


def _shown_cell(cell: Cell, scale: float, show: NumberFormat) -> str:
    if cell.text is not None:
        return visible(cell.text)
    if cell.failed:
        return FAILED
    if cell.value is None:
        return ABSENT
    if isinstance(cell.value, bool):
        return "true" if cell.value else "false"
    if isinstance(cell.value, str):
        return visible(cell.value)
    return show(cell.value * scale)


def _mark(cell: Cell, notes: list[str]) -> str:
    return f"[{notes.index(cell.note) + 1}]" if cell.note else ""


def _number(value: Value) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
