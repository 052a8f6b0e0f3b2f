"""Tables and sentences of a document as HTML."""

from __future__ import annotations

from attnres_cli.report.document import Notice
from attnres_cli.report.heat import heat_colours
from attnres_cli.report.page.elements import Html, joined, tag, text
from attnres_cli.report.palette import css
from attnres_cli.report.table import Cell, Column, Shown, Table

# Tables of more columns are left out of print: a sheet holds a dozen of them, and nobody lays out many sheets.
MOST_PRINTED_COLUMNS = 40
# Without the script, which sets wider tables in parts, so are these.
MOST_UNSCRIPTED_COLUMNS = 12


def table_block(table: Table) -> Html:
    """The table under its title, in a box of its own that scrolls where the page is too narrow for it."""
    title = f"table-{table.key}"
    notes = [*table.shown().notes, *table.remarks]
    return tag(
        "section",
        tag("h3", table.title, id=title) if table.title else None,
        tag("p", _sentence(table.caption), class_="caption") if table.caption else None,
        grid(table, label=title if table.title else None),
        tag("ul", *(tag("li", note) for note in notes), class_="notes") if notes else None,
        class_="table-block",
    )


def grid(table: Table, *, label: str | None = None, name: str | None = None) -> Html:
    """The table alone. label: id of what names it; or its name itself. Numbers keep their full precision in
    <data value>."""
    shown = table.shown()
    heads = zip(table.columns, shown.headings, shown.units, strict=True)
    head = tag("tr", *(_heading(column, heading, unit) for column, heading, unit in heads))
    body = [_row(table, shown, number) for number in range(len(table.rows))]
    box = tag(
        "div",
        tag("table", tag("thead", head), tag("tbody", *body)),
        class_=_box_classes(len(table.columns)), role="region", tabindex="0", aria_labelledby=label, aria_label=name,
    )  # fmt: skip
    if len(table.columns) <= MOST_UNSCRIPTED_COLUMNS:
        return box
    left_out = (
        f"Not printed: this table of {len(table.columns)} columns is wider than the paper. Its numbers stand in the "
        "HTML file that was printed."
    )
    return joined(box, tag("p", left_out, class_="caption left-out"))


def _box_classes(num_columns: int) -> str:
    if num_columns <= MOST_UNSCRIPTED_COLUMNS:
        return "scroll"
    return "scroll long" if num_columns <= MOST_PRINTED_COLUMNS else "scroll long unprinted"


def notice_block(notice: Notice, *, heading: str = "h3") -> Html:
    return tag(
        "section",
        tag(heading, notice.title),
        *(tag("p", line) for line in notice.lines),
        class_=f"notice {notice.tone}",
    )


def _heading(column: Column, heading: str, unit: str) -> Html:
    return tag(
        "th",
        heading,
        tag("span", unit, class_="unit") if unit else None,
        scope="col",
        class_="n" if column.is_numeric else None,
    )


def _row(table: Table, shown: Shown, number: int) -> Html:
    cells = []
    for index, column in enumerate(table.columns):
        cell = table.cell(table.rows[number], column)
        inside = _inside(cell, column, shown.rows[number][index], shown.marks[number][index])
        attributes = {"class_": "n" if column.is_numeric else None, "style": _heat_style(cell)}
        cells.append(tag("td", inside, **attributes) if index else tag("th", inside, scope="row", **attributes))
    return tag("tr", *cells)


def _inside(cell: Cell, column: Column, words: str, mark: str) -> Html:
    value = cell.value
    is_number = column.is_numeric and isinstance(value, (int, float)) and not isinstance(value, bool)
    shown = tag("data", words, value=repr(value)) if is_number else text(words)
    return joined(shown, tag("sup", mark) if mark else None)


def _heat_style(cell: Cell) -> str | None:
    if cell.heat is None:
        return None
    background, words = heat_colours(cell.heat)
    return f"background:{css(background)};color:{css(words)}"


def _sentence(words: str) -> str:
    """Captions are written to stand after a title; on a page they stand alone."""
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")
