"""How a table stands on a page: widths, pages, footnote marks. Shared by the two ways of drawing it."""

from __future__ import annotations

from attnres_cli.report.table import COLUMN_GAP, Column, Shown, Table

# Wider than anything: where nobody wraps.
UNLIMITED_COLUMNS = 100_000
# A text column is folded down to this before a table is continued below itself.
NARROWEST_TEXT = 24
# Rich drops spaces at the end of a right-aligned cell, so this stands for them until the text is made: a character
# of nobody's alphabet, which `visible` removes from what users wrote.
FIXED_SPACE = "\ue000"


def marked_column(table: Table, shown: Shown, index: int) -> list[str]:
    """The column's texts with their footnote marks; numbers keep their decimal points in line."""
    marks = [row[index] for row in shown.marks]
    longest = max((len(mark) for mark in marks), default=0)
    room = longest if table.columns[index].is_numeric else 0
    pairs = zip((row[index] for row in shown.rows), marks, strict=True)
    return [f"{text} {mark.ljust(room, FIXED_SPACE)}" if mark or room else text for text, mark in pairs]


def needed_widths(natural: list[int], columns: tuple[Column, ...]) -> list[int]:
    """What each column takes at least: numbers and the first column all they need, text may be folded."""
    return [
        width if index == 0 or column.is_numeric else min(width, NARROWEST_TEXT)
        for index, (width, column) in enumerate(zip(natural, columns, strict=True))
    ]


def pages(widths: list[int], available: int) -> list[list[int]]:
    """Column numbers of each page: as many columns as fit, the first one on every page.

    A column that does not fit even alone beside the first gets a page of its own and is folded there.
    """
    if total_width(widths) <= available:
        return [list(range(len(widths)))]
    found: list[list[int]] = [[0]]
    used = widths[0]
    for index in range(1, len(widths)):
        if len(found[-1]) > 1 and used + COLUMN_GAP + widths[index] > available:
            found.append([0])
            used = widths[0]
        found[-1].append(index)
        used += COLUMN_GAP + widths[index]
    return found


def total_width(widths: list[int]) -> int:
    """Columns of the terminal that a page with these widths takes."""
    return sum(widths) + COLUMN_GAP * (len(widths) - 1)


def finished_text(lines: list[str]) -> str:
    """The lines as text, without spaces at their ends."""
    return "".join(line.replace(FIXED_SPACE, " ").rstrip() + "\n" for line in lines)
