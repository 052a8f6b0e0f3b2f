"""What a command prints, before it has a look: a sequence of tables, sentences and charts, and the data behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from attnres_cli.discovery import load, names
from attnres_cli.errors import UserError, nearest_name
from attnres_cli.report.table import Table

Tone = Literal["plain", "result", "warning"]


@dataclass(frozen=True)
class Notice:
    """Sentences that stand out. tone: "result" for a finding, "warning" for a refusal or a doubt."""

    title: str
    lines: tuple[str, ...]
    tone: Tone = "plain"


@dataclass(frozen=True)
class Heated:
    """Characters start to end (excluded) of a line of a chart, with a colour behind them: heat 0 to 1 on the scale of
    magnitudes or, diverging, on that of differences."""

    line: int
    start: int
    end: int
    heat: float
    diverging: bool = False


@dataclass(frozen=True)
class Chart:
    """A drawing in characters, already laid out: shown as it is, in a fixed pitch, never wrapped.

    markers: the characters that draw the curves, which a format may colour; heats: cells that it may colour.
    """

    title: str
    lines: tuple[str, ...]
    markers: str = ""
    heats: tuple[Heated, ...] = ()


Block = Table | Notice | Chart


@dataclass(frozen=True)
class Document:
    """kind: the schema's name in JSON ("compare" → "attnres.compare/1"). payload: what JSON holds beside the tables."""

    kind: str
    blocks: tuple[Block, ...]
    payload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tables(self) -> dict[str, Table]:
        return {block.key: block for block in self.blocks if isinstance(block, Table)}

    def only_tables(self, keys: Iterable[str]) -> Document:
        """The document with nothing but these tables. Raises UserError for a table it does not have."""
        for key in (keys := list(keys)):
            if key not in self.tables:
                raise UserError(
                    f"There is no table '{key}'.",
                    where="--table",
                    expected=", ".join(self.tables),
                    nearest=nearest_name(key, self.tables),
                )
        return replace(self, blocks=tuple(self.tables[key] for key in keys))


def formats() -> tuple[str, ...]:
    """Names of the output formats: the files of report/renderers/."""
    return names("report.renderers")


def render(document: Document, format_name: str, *, width_columns: int | None = None, colour: bool = False) -> str:
    """The document as text that ends in a newline.

    width_columns: the terminal's width, or None where nobody wraps (a pipe, a file). colour: whether escape sequences
    may be used. Both matter to "table" only. Raises UserError naming the nearest format when there is none of that
    name.
    """
    renderer = load("report.renderers", format_name, what="output format", where="--format")
    text: str = renderer.render(document, width_columns=width_columns, colour=colour)
    return text
