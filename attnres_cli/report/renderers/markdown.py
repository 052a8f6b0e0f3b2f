"""Markdown (GitHub's flavour): tables with aligned columns, notes as lists, charts in a code block."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attnres_cli.report.document import Chart, Document, Notice
from attnres_cli.report.table import Table
from attnres_cli.report.visible import visible

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$])")
_AT_LINE_START = re.compile(r"^(\s*)([-+#=]|\d+[.)])")


def render(document: Document, *, width_columns: int | None = None, colour: bool = False) -> str:
    parts: list[str] = []
    for block in document.blocks:
        if isinstance(block, Table):
            parts.append(_table(block))
        elif isinstance(block, Notice):
            parts.append(_notice(block))
        elif isinstance(block, Chart):
            fence = _fence(block.lines)
            parts.append(f"## {escape(block.title)}\n\n{fence}text\n" + "\n".join(block.lines) + f"\n{fence}\n")
    return "\n".join(parts)


def escape(text: object) -> str:
    """`text` as words: nothing in it is markup, HTML or a cell border, even at the start of a line."""
    words = _inline(text)
    return _AT_LINE_START.sub(lambda found: found[1] + found[2][:-1] + "\\" + found[2][-1], words)


def _inline(text: object) -> str:
    """The same within a line, such as in a cell, where no list or heading can begin."""
    return _SPECIAL.sub(r"\\\1", visible(text)).replace(r"\<", "&lt;").replace(r"\>", "&gt;").replace(r"\&", "&amp;")


def _fence(lines: Sequence[str]) -> str:
    """What no line ends the code block with, whatever names it holds."""
    longest = max((len(ticks) for line in lines for ticks in re.findall("`+", line)), default=0)
    return "`" * max(3, longest + 1)


def _table(table: Table) -> str:
    shown = table.shown()
    headings = [
        f"{heading} ({unit})" if unit else heading for heading, unit in zip(shown.headings, shown.units, strict=True)
    ]
    lines = [f"## {escape(table.title)}", ""]
    if table.caption:
        lines += [escape(table.caption), ""]
    lines.append(_line([escape(heading) for heading in headings]))
    lines.append(_line(["--:" if column.is_numeric else ":--" for column in table.columns]))
    for texts, marks in zip(shown.rows, shown.marks, strict=True):
        lines.append(_line([_cell(text, mark) for text, mark in zip(texts, marks, strict=True)]))
    if shown.notes or table.remarks:
        lines += ["", *(f"- {escape(text)}" for text in (*shown.notes, *table.remarks))]
    return "\n".join(lines) + "\n"


def _notice(notice: Notice) -> str:
    lines = [escape(line) for line in notice.lines]
    return "\n".join([f"## {escape(notice.title)}", "", *(f"- {line}" for line in lines)]) + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str, mark: str) -> str:
    return _inline(text) + (f" {_inline(mark)}" if mark else "")
