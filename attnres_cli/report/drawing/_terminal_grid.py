"""Grids in characters: numbers where they fit, else one digit per cell for the tenth of the scale it lies in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attnres_cli.report.document import Heated
from attnres_cli.report.drawing._cell_numbers import cell_decimals
from attnres_cli.report.drawing._terminal_words import columns_of, folded, padded, shortened
from attnres_cli.report.picture import Heat

MOST_ROWS = 40
LONGEST_NAME = 18
EMPTY = "·"
MARK = "*"
STEPS = 10
SCALE_CELLS = 20
MOST_LEGEND_LINES = 3
MOST_MARKS_TOLD = 4
NOTHING = "nothing to draw: no number was recorded"


@dataclass(frozen=True)
class _Layout:
    """Which rows and columns are shown, and how wide a cell is. in_numbers: whether it holds a number, or a digit."""

    rows: Sequence[int]
    columns: Sequence[int]
    cell: int
    in_numbers: bool
    name_columns: int


def draw_grid(picture: Heat, width: int | None, *, colour: bool) -> tuple[tuple[str, ...], tuple[Heated, ...]]:
    """(lines, the colours of cells). width: None for all rows and columns in numbers."""
    if all(value is None for row in picture.values for value in row):
        return (NOTHING,), ()
    decimals = cell_decimals(picture)
    rows, columns = range(len(picture.rows)), range(len(picture.columns))
    texts = [[_text(picture, row, column, decimals) for column in columns] for row in rows]
    layout = _layout(picture, texts, width)
    lines: list[str] = []
    heats: list[Heated] = []
    lines += _headings(picture, layout)
    for row in layout.rows:
        line = padded(shortened(picture.rows[row], layout.name_columns), layout.name_columns + 1)
        for column in layout.columns:
            value = picture.values[row][column]
            text = texts[row][column] if layout.in_numbers else _digit(picture, value)
            start = len(line)
            line += text.rjust(layout.cell)
            if value is not None:
                heats.append(Heated(len(lines), start, len(line), picture.share(value), picture.diverging))
        lines.append(line.rstrip() if picture.values[row][layout.columns[-1]] is None else line)
    if colour:
        line, bar = _scale_bar(picture, decimals, len(lines), width)
        lines.append(line)
        heats += bar
    limit = width or 10_000
    for words in _words(picture, layout, decimals):
        lines += folded(words, limit)
    return tuple(lines), tuple(heats)


# ---------------------------------------------------------------------- what fits


def _layout(picture: Heat, texts: Sequence[Sequence[str]], width: int | None) -> _Layout:
    rows, columns = range(len(picture.rows)), range(len(picture.columns))
    longest = max((columns_of(shortened(name, LONGEST_NAME)) for name in picture.rows), default=0)
    number_cell = max(len(text) for row in texts for text in row) + 1
    named_cell = max(number_cell, *(columns_of(shortened(name, LONGEST_NAME)) + 1 for name in picture.columns))
    if width is None:
        return _Layout(rows, columns, named_cell, True, longest)
    names = min(longest, max(4, width // 4))
    room = width - names - 1
    rows = thinned(rows, MOST_ROWS)
    for cell in (named_cell, number_cell):
        if len(columns) * cell <= room:
            return _Layout(rows, columns, cell, True, names)
    cell = 2 if 2 * len(columns) <= room else 1
    return _Layout(rows, thinned(columns, room // cell), cell, False, names)


def thinned(places: range, most: int) -> range:
    """Every n-th of the places, so that no more than `most` are left; the first is kept."""
    return places[:: max(1, math.ceil(len(places) / most))]


# ---------------------------------------------------------------------- cells


def _text(picture: Heat, row: int, column: int, decimals: int) -> str:
    value = picture.values[row][column]
    if value is None:
        return EMPTY + " " * bool(picture.marked)
    text = f"{value:{'+' if picture.diverging else ''}.{decimals}f}"
    if not picture.marked:
        return text
    return text + (MARK if (row, column) in picture.marked else " ")


def _digit(picture: Heat, value: float | None) -> str:
    return EMPTY if value is None else str(min(STEPS - 1, int(picture.share(value) * STEPS)))


def _headings(picture: Heat, layout: _Layout) -> list[str]:
    """Names of the columns where they fit into their cells, else their numbers, written downwards."""
    before = " " * (layout.name_columns + 1)
    names = [shortened(picture.columns[column], LONGEST_NAME) for column in layout.columns]
    if layout.in_numbers and all(columns_of(name) < layout.cell for name in names):
        return [before + "".join(padded(name, layout.cell, right=True) for name in names)]
    digits = len(str(layout.columns[-1]))
    numbers = [str(column).rjust(digits) for column in layout.columns]
    if layout.in_numbers:
        return [before + "".join(number.rjust(layout.cell) for number in numbers)]
    return [
        (before + "".join(number[place].rjust(layout.cell) for number in numbers)).rstrip() for place in range(digits)
    ]


# ---------------------------------------------------------------------- words below


def _scale_bar(picture: Heat, decimals: int, line: int, width: int | None) -> tuple[str, list[Heated]]:
    """The colours from one end of the scale to the other."""
    low, high = (f"{end:.{decimals}f}" for end in (picture.low, picture.high))
    high = f"≥ {high}" if _goes_beyond(picture) else high
    cells = SCALE_CELLS if width is None else max(2, min(SCALE_CELLS, width - len(low) - len(high) - 2))
    heats = [
        Heated(line, len(low) + 1 + cell, len(low) + 2 + cell, cell / (cells - 1), picture.diverging)
        for cell in range(cells)
    ]
    return f"{low} {' ' * cells} {high}", heats


def _goes_beyond(picture: Heat) -> bool:
    """Whether the last colour also stands for what lies beyond the scale."""
    return any(value is not None and value > picture.high for row in picture.values for value in row)


def _words(picture: Heat, layout: _Layout, decimals: int) -> list[str]:
    """What the numbers mean, which columns are which, what is left out, and the caption."""
    said = [f"{picture.value.text}; rows: {picture.y.text}; columns: {picture.x.text}"]
    if not layout.in_numbers:
        step = (picture.high - picture.low) / STEPS
        ends = (picture.low, picture.low + step, picture.high - step, picture.high)
        first, second, third, fourth = (f"{end:.{max(decimals, 2)}f}" for end in ends)
        beyond = " and above" if _goes_beyond(picture) else ""
        said.append(f"0: {first} to {second} … 9: {third} to {fourth}{beyond}; {EMPTY} nothing")
    if _are_numbered(picture, layout):
        said.append(_numbered(picture, layout))
    left_out = [
        f"every {_ordinal(step)} of {len(whole)} {what}"
        for shown, whole, what in ((layout.rows, picture.rows, "rows"), (layout.columns, picture.columns, "columns"))
        if (step := _step(shown)) > 1
    ]
    if left_out:
        said.append(f"shown: {' and '.join(left_out)}; --json has all")
    if picture.marked:
        said.append(_marks(picture, layout))
    return [*said, picture.caption]


def _are_numbered(picture: Heat, layout: _Layout) -> bool:
    names = [shortened(picture.columns[column], LONGEST_NAME) for column in layout.columns]
    return not (layout.in_numbers and all(columns_of(name) < layout.cell for name in names))


def _numbered(picture: Heat, layout: _Layout) -> str:
    """Which column is which; of many the first ones and the last."""
    entries = [f"{column} {picture.columns[column]}" for column in layout.columns]
    text = ", ".join(entries)
    room = MOST_LEGEND_LINES * 60
    if len(text) > room:
        kept = 0
        while len(", ".join(entries[: kept + 1])) < room - 40:
            kept += 1
        text = f"{', '.join(entries[:kept])}, … {entries[-1]}"
    return f"columns: {text}"


def _marks(picture: Heat, layout: _Layout) -> str:
    """The marked cells: by their mark where it is shown, else by name."""
    if layout.in_numbers and all(row in layout.rows and column in layout.columns for row, column in picture.marked):
        return f"{MARK} marked"
    cells = [f"{picture.rows[row]} / {picture.columns[column]}" for row, column in sorted(picture.marked)]
    more = f" and {len(cells) - MOST_MARKS_TOLD} more" if len(cells) > MOST_MARKS_TOLD else ""
    return f"marked: {'; '.join(cells[:MOST_MARKS_TOLD])}{more}"


def _step(shown: Sequence[int]) -> int:
    return shown[1] - shown[0] if len(shown) > 1 else 1


def _ordinal(number: int) -> str:
    return {2: "2nd", 3: "3rd"}.get(number, f"{number}th")
