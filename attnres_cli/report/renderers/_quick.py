"""Drawing a document that fits as it is, without Rich, which takes longer to load than a list of runs to be made.

The text is the same as Rich's (tests compare the two); what needs folding or a colour scale is left to it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from attnres_cli.report.document import Block, Chart, Document, Notice
from attnres_cli.report.renderers._layout import (
    UNLIMITED_COLUMNS,
    finished_text,
    marked_column,
    needed_widths,
    pages,
    total_width,
)
from attnres_cli.report.table import COLUMN_GAP, Table
from attnres_cli.report.visible import visible

_TITLE_CODES = {"plain": "1", "result": "1;32", "warning": "1;33"}
_BOLD, _DIM = "1", "2"


class _NotThisWay(Exception):
    """Something in the document needs Rich."""


def draw(document: Document, width: int, colour: bool) -> str | None:
    """The document on lines of at most `width` columns, None where that takes more than putting lines together."""
    lines: list[str] = []
    try:
        for block in document.blocks:
            lines += [""] if lines else []
            lines += _lines(block, width, colour)
    except _NotThisWay:
        return None
    return finished_text(lines)


def _lines(block: Block, width: int, colour: bool) -> Iterator[str]:
    if isinstance(block, Table):
        yield from _table_lines(block, width, colour)
    elif isinstance(block, Notice):
        yield _styled(_fitting(visible(block.title), width), _TITLE_CODES[block.tone], colour)
        yield from (f"  {_fitting(visible(line), width - COLUMN_GAP)}" for line in block.lines)
    else:
        assert isinstance(block, Chart)
        if colour:  # every curve has its own
            raise _NotThisWay
        yield _fitting(visible(block.title), width)
        yield from block.lines


def _table_lines(table: Table, width: int, colour: bool) -> Iterator[str]:
    if colour and any(table.cell(row, column).heat is not None for row in table.rows for column in table.columns):
        raise _NotThisWay
    shown = table.shown()
    indent = " " * COLUMN_GAP if table.title else ""
    if table.title:
        yield _styled(_fitting(visible(table.title), width), _BOLD, colour)
    if table.caption:
        yield f"  {_styled(_fitting(visible(table.caption), width - COLUMN_GAP), _DIM, colour)}"
    texts = [marked_column(table, shown, index) for index in range(len(table.columns))]
    natural = [
        max(_columns_of(text) for text in column)
        for column in (
            [heading, unit, *column] for heading, unit, column in zip(shown.headings, shown.units, texts, strict=True)
        )
    ]
    available = (width if table.folds else UNLIMITED_COLUMNS) - len(indent)
    for page in pages(needed_widths(natural, table.columns), available) if table.rows else []:
        widths = [natural[index] for index in page]
        if total_width(widths) > available:
            raise _NotThisWay

        def line(cells: list[str], code: str = "", page: list[int] = page, widths: list[int] = widths) -> str:
            aligned = [
                cell.rjust(room) if table.columns[index].is_numeric else cell.ljust(room)
                for index, cell, room in zip(page, cells, widths, strict=True)
            ]
            return indent + (" " * COLUMN_GAP).join(_styled(cell, code, colour and bool(code)) for cell in aligned)

        if any(shown.headings):
            yield line([shown.headings[index] for index in page], _BOLD)
            if any(shown.units):
                yield line([shown.units[index] for index in page], _DIM)
            yield indent + _styled("─" * total_width(widths), _DIM, colour)
        yield from (line([texts[index][number] for index in page]) for number in range(len(table.rows)))
    for note in (*shown.notes, *map(visible, table.remarks)):
        yield f"  {_styled(_fitting(note, width - COLUMN_GAP), _DIM, colour)}"


def _fitting(text: str, width: int) -> str:
    """`text`, where it takes one line of `width` columns."""
    if not text.strip() or _columns_of(text) > width:
        raise _NotThisWay
    return text


def _columns_of(text: str) -> int:
    """Columns that `text` takes on a terminal, where every character takes one."""
    if not text.isascii() and any(
        unicodedata.east_asian_width(each) in "WF" or unicodedata.category(each) in ("Mn", "Me", "Cf", "Cc")
        for each in text
    ):
        raise _NotThisWay
    if "\n" in text or "\t" in text:
        raise _NotThisWay
    return len(text)


def _styled(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour and text.strip() else text
