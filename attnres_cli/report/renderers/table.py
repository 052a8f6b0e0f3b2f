"""Text for a terminal (the format "table"): aligned columns through Rich.

On a terminal nothing is wider than the terminal: a table that is too wide continues below itself with its first column
repeated, and a single text that is too long is folded. In a pipe or a file nothing is folded and nothing is cut.
"""

from __future__ import annotations

import io

from rich import box
from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.padding import Padding
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from attnres_cli.report.document import Chart, Document, Notice
from attnres_cli.report.heat import heat_colours
from attnres_cli.report.table import Shown, Table
from attnres_cli.report.visible import visible

# Wider than anything: Rich has no "do not wrap".
UNLIMITED_COLUMNS = 100_000
GAP = 2
# A text column is folded down to this before a table is continued below itself.
NARROWEST_TEXT = 24
# Rich drops spaces at the end of a right-aligned cell, so this stands for them until the text is made: a character
# of nobody's alphabet, which `visible` removes from what users wrote.
FIXED_SPACE = "\ue000"
_TITLE_STYLES = {"plain": "bold", "result": "bold green", "warning": "bold yellow"}
_CURVE_STYLES = ("cyan", "magenta", "green", "yellow", "blue", "red")
_RULE = box.Box("    \n    \n ── \n    \n    \n    \n    \n    \n")


def render(document: Document, *, width_columns: int | None = None, colour: bool = False) -> str:
    buffer = io.StringIO()
    width = width_columns or UNLIMITED_COLUMNS
    console = Console(
        file=buffer, width=width, force_terminal=colour, color_system="256" if colour else None, markup=False,
        highlight=False, emoji=False, legacy_windows=False,
    )  # fmt: skip
    for index, block in enumerate(document.blocks):
        if index:
            console.print()
        if isinstance(block, Table):
            _print_table(console, block, width)
        elif isinstance(block, Notice):
            console.print(Text(visible(block.title), style=_TITLE_STYLES[block.tone]))
            for line in block.lines:
                console.print(Padding(Text(visible(line)), (0, 0, 0, 2), expand=False))
        elif isinstance(block, Chart):
            console.print(Text(visible(block.title), style="bold"))
            for line in block.lines:
                console.print(_coloured(line, block.markers), no_wrap=True, overflow="ignore", crop=False)
    return "".join(line.replace(FIXED_SPACE, " ").rstrip() + "\n" for line in buffer.getvalue().splitlines())


def _coloured(line: str, markers: str) -> Text:
    """A line of a chart; right of the axis each curve has its colour (its letter tells it apart without)."""
    text = Text(line)
    axis = next((index for index, character in enumerate(line) if character in "┤│"), len(line))
    for index in range(axis + 1, len(line)):
        if (curve := markers.find(line[index])) >= 0:
            text.stylize(_CURVE_STYLES[curve % len(_CURVE_STYLES)], index, index + 1)
    return text


def _print_table(console: Console, table: Table, width: int) -> None:
    shown = table.shown()
    indent = GAP if table.title else 0
    if table.title:
        console.print(Text(visible(table.title), style="bold"))
    if table.caption:
        console.print(Padding(Text(visible(table.caption), style="dim"), (0, 0, 0, 2), expand=False))
    texts = [_marked_column(table, shown, index) for index in range(len(table.columns))]
    widths = [
        natural if index == 0 or column.is_numeric else min(natural, NARROWEST_TEXT)
        for index, (natural, column) in enumerate(zip(_natural_widths(shown, texts), table.columns, strict=True))
    ]
    width = width if table.folds else UNLIMITED_COLUMNS
    for page in _pages(widths, width - indent) if table.rows else []:
        console.print(
            Padding(_page(table, shown, texts, page), (0, 0, 0, indent), expand=False), width=width, crop=False
        )
    for note in (*shown.notes, *map(visible, table.remarks)):
        console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2), expand=False))


def _marked_column(table: Table, shown: Shown, index: int) -> list[str]:
    """The column's texts with their footnote marks; numbers keep their decimal points in line."""
    marks = [row[index] for row in shown.marks]
    longest = max((len(mark) for mark in marks), default=0)
    room = longest if table.columns[index].is_numeric else 0
    pairs = zip((row[index] for row in shown.rows), marks, strict=True)
    return [f"{text} {mark.ljust(room, FIXED_SPACE)}" if mark or room else text for text, mark in pairs]


def _page(table: Table, shown: Shown, texts: list[list[str]], page: list[int]) -> RichTable:
    # One space of divider and one of padding make the gap of two.
    grid = RichTable(
        box=_RULE,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_header=any(shown.headings),
        header_style="",
        border_style="dim",
    )
    for index in page:
        numeric = table.columns[index].is_numeric
        heading = Text(shown.headings[index], style="bold")
        if any(shown.units):
            heading.append("\n" + shown.units[index], style="dim not bold")
        grid.add_column(heading, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for number in range(len(table.rows)):
        grid.add_row(*(Text(texts[index][number], style=_heat_style(table, number, index)) for index in page))
    return grid


def _heat_style(table: Table, row: int, column: int) -> Style:
    heat = table.cell(table.rows[row], table.columns[column]).heat
    if heat is None:
        return Style.null()
    background, text = heat_colours(heat)
    return Style(color=Color.from_rgb(*text), bgcolor=Color.from_rgb(*background))


def _natural_widths(shown: Shown, texts: list[list[str]]) -> list[int]:
    columns = zip(shown.headings, shown.units, texts, strict=True)
    return [max(cell_len(text) for text in (heading, unit, *column)) for heading, unit, column in columns]


def _pages(widths: list[int], available: int) -> list[list[int]]:
    """Column numbers of each page: as many columns as fit, the first one on every page.

    A column that does not fit even alone beside the first gets a page of its own and is folded there.
    """
    if sum(widths) + GAP * (len(widths) - 1) <= available:
        return [list(range(len(widths)))]
    pages: list[list[int]] = [[0]]
    used = widths[0]
    for index in range(1, len(widths)):
        if len(pages[-1]) > 1 and used + GAP + widths[index] > available:
            pages.append([0])
            used = widths[0]
        pages[-1].append(index)
        used += GAP + widths[index]
    return pages
