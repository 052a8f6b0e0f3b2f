"""Text for a terminal (the format "table"): aligned columns.

On a terminal nothing is wider than the terminal: a table that is too wide continues below itself with its first column
repeated, and a single text that is too long is folded. In a pipe or a file nothing is folded and nothing is cut.
"""

from __future__ import annotations

from attnres_cli.report.document import Document
from attnres_cli.report.renderers import _quick
from attnres_cli.report.renderers._layout import UNLIMITED_COLUMNS


def render(document: Document, *, width_columns: int | None = None, colour: bool = False) -> str:
    width = width_columns or UNLIMITED_COLUMNS
    text = _quick.draw(document, width, colour)
    if text is not None:
        return text
    from attnres_cli.report.renderers import _rich

    return _rich.draw(document, width, colour)
