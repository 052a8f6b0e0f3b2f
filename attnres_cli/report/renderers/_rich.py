"""Drawing a document through Rich: whatever has to be folded, coloured by a scale, or measured by Unicode's rules."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.padding import Padding
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from attnres_cli.report.document import Chart, Document, Notice
from attnres_cli.report.heat import Rgb, heat_colours
from attnres_cli.report.palette import DIVERGING, SEQUENTIAL
from attnres_cli.report.renderers._layout import (
    UNLIMITED_COLUMNS,
    finished_text,
    marked_column,
    needed_widths,
    pages,
)
from attnres_cli.report.table import COLUMN_GAP, Shown, Table
from attnres_cli.report.visible import visible

_TITLE_STYLES = {"plain": "bold", "result": "bold green", "warning": "bold yellow"}
_CURVE_STYLES = ("cyan", "magenta", "green", "yellow", "blue", "red")
_RULE = box.Box("    \n    \n ── \n    \n    \n    \n    \n    \n")


def draw(document: Document, width: int, colour: bool) -> str:
    """The document on lines of at most `width` columns."""
    buffer = io.StringIO()
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
            for drawn in _coloured(block):
                console.print(drawn, no_wrap=True, overflow="ignore", crop=False)
    return finished_text(buffer.getvalue().splitlines())


def _coloured(chart: Chart) -> list[Text]:
    """The lines of a chart, in colours that say nothing that its characters do not say."""
    lines = [_with_curves(line, chart.markers) for line in chart.lines]
    for each in chart.heats:
        lines[each.line].stylize(_on_heat(each.heat, DIVERGING if each.diverging else SEQUENTIAL), each.start, each.end)
    return lines


def _with_curves(line: str, markers: str) -> Text:
    """Right of the axis each curve has its colour (its letter tells it apart without)."""
    text = Text(line)
    axis = next((index for index, character in enumerate(line) if character in "┤│"), len(line))
    for index in range(axis + 1, len(line)):
        if (curve := markers.find(line[index])) >= 0:
            text.stylize(_CURVE_STYLES[curve % len(_CURVE_STYLES)], index, index + 1)
    return text


def _print_table(console: Console, table: Table, width: int) -> None:
    shown = table.shown()
    indent = COLUMN_GAP if table.title else 0
    if table.title:
        console.print(Text(visible(table.title), style="bold"))
    if table.caption:
        console.print(Padding(Text(visible(table.caption), style="dim"), (0, 0, 0, 2), expand=False))
    texts = [marked_column(table, shown, index) for index in range(len(table.columns))]
    widths = needed_widths(_natural_widths(shown, texts), table.columns)
    width = width if table.folds else UNLIMITED_COLUMNS
    own_width, console.width = console.width, width
    for page in pages(widths, width - indent) if table.rows else []:
        console.print(
            Padding(_page(table, shown, texts, page), (0, 0, 0, indent), expand=False), width=width, crop=False
        )
    console.width = own_width
    for note in (*shown.notes, *map(visible, table.remarks)):
        console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2), expand=False))


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
    return Style.null() if heat is None else _on_heat(heat, SEQUENTIAL)


def _on_heat(heat: float, anchors: Sequence[Rgb]) -> Style:
    background, text = heat_colours(heat, anchors)
    return Style(color=Color.from_rgb(*text), bgcolor=Color.from_rgb(*background))


def _natural_widths(shown: Shown, texts: list[list[str]]) -> list[int]:
    columns = zip(shown.headings, shown.units, texts, strict=True)
    return [max(cell_len(text) for text in (heading, unit, *column)) for heading, unit, column in columns]
