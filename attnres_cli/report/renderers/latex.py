"""LaTeX for a paper: tables with the rules of booktabs, intervals in one column, sentences as paragraphs.

The text compiles inside any document that loads booktabs; whatever LaTeX treats specially is escaped, so that a run's
name is just a name. Charts in characters are left out: a paper has figures.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from attnres_cli.report.document import Document, Notice
from attnres_cli.report.table import ABSENT, Column, Shown, Table
from attnres_cli.report.visible import visible

_PREAMBLE = "% \\usepackage{booktabs}\n"
_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "`": r"\textasciigrave{}", '"': "''",
    # after the end of a row these would be its arguments
    "[": "{[}", "]": "{]}", "*": "{*}",
    # of our own words, which every engine should know
    "Δ": r"$\Delta$", "∇": r"$\nabla$", "×": r"$\times$", "±": r"$\pm$", "≤": r"$\le$", "≥": r"$\ge$", "→": r"$\to$",
    "←": r"$\gets$", "√": r"$\surd$", "•": r"$\bullet$", "·": r"$\cdot$", "≈": r"$\approx$", "—": "---", "–": "--",
    "…": r"\dots{}", "°": r"$^\circ$",
}  # fmt: skip
_NUMBER = re.compile(r"[+-]?[\d,]*\.?\d+(e[+-]\d+)?")


def render(document: Document, *, width_columns: int | None = None, colour: bool = False) -> str:
    parts = [_table(block) if isinstance(block, Table) else _notice(block) if isinstance(block, Notice) else ""
             for block in document.blocks]  # fmt: skip
    return _PREAMBLE + "".join(f"\n{part}" for part in parts if part)


def escape(text: object) -> str:
    """`text` as words: nothing in it is a command, and two hyphens stay two."""
    words = "".join(_SPECIAL.get(character, character) for character in visible(text))
    return re.sub(r"-(?=-)", "-{}", words) if "--" in visible(text) else words


def _notice(notice: Notice) -> str:
    lines = "\n\n".join(escape(line) for line in notice.lines)
    return f"\\paragraph{{{escape(notice.title)}}}\n{lines}\n"


# ---------------------------------------------------------------------- tables


@dataclass(frozen=True)
class _Column:
    """A column as it is set. places: which of the table's columns it is made of: one, or both ends of an interval."""

    align: str
    heading: str
    unit: str
    places: tuple[int, ...]


def _table(table: Table) -> str:
    shown = table.shown()
    columns = _columns(table.columns, shown)
    heads = [_row([escape(column.heading) for column in columns])]
    if any(column.unit for column in columns):
        heads.append(_row([escape(column.unit) for column in columns]))
    rows = [
        _row([_cell(column, texts, marks) for column in columns])
        for texts, marks in zip(shown.rows, shown.marks, strict=True)
    ]
    said = (table.title, table.caption)
    caption = ". ".join(escape(part[:1].upper() + part[1:]) for part in said if part)
    notes = [escape(note) for note in (*shown.notes, *table.remarks)]
    return "\n".join(
        [
            r"\begin{table}[htbp]",
            r"  \centering\small",
            f"  \\caption{{{caption}.}}",
            f"  \\label{{tab:{re.sub(r'[^A-Za-z0-9]+', '-', table.key)}}}",
            f"  \\begin{{tabular}}{{{''.join(column.align for column in columns)}}}",
            r"    \toprule",
            *heads,
            r"    \midrule",
            *rows,
            r"    \bottomrule",
            r"  \end{tabular}",
            *(f"  \\par\\smallskip\\footnotesize {note}" for note in notes),
            r"\end{table}",
            "",
        ]
    )


def _columns(columns: Sequence[Column], shown: Shown) -> list[_Column]:
    found: list[_Column] = []
    for place, column in enumerate(columns):
        if found and place in found[-1].places:
            continue
        following = columns[place + 1] if place + 1 < len(columns) else None
        if following and column.key.startswith("low") and following.key.startswith("high"):
            found.append(_Column("c", f"{shown.units[place] or '95 %'} interval", "", (place, place + 1)))
        else:
            align = "r" if column.is_numeric else "l"
            found.append(_Column(align, shown.headings[place], shown.units[place], (place,)))
    return found


def _cell(column: _Column, texts: Sequence[str], marks: Sequence[str]) -> str:
    mark = "".join(f"$^{{{escape(marks[place])}}}$" for place in column.places if marks[place])
    parts = [texts[place] for place in column.places]
    if len(parts) == 2:
        return (escape(ABSENT) if ABSENT in parts else f"{{[}}{_value(parts[0])}, {_value(parts[1])}{{]}}") + mark
    return _value(parts[0]) + mark


def _value(text: str) -> str:
    """A number with a real minus; "~" alone is the sign of a difference that is not shown."""
    if text == "~":
        return r"$\sim$"
    is_number = _NUMBER.fullmatch(text)
    return f"${text.replace(',', '{,}')}$" if is_number and text[0] in "+-" else escape(text)


def _row(cells: Sequence[str]) -> str:
    return f"    {' & '.join(cells)} \\\\"
