"""The tables of `attnres presets`: residual schemes, rows of the paper's ablations, and what they have in common."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from attnres_cli.preset.catalogue import Entry
    from attnres_cli.report.table import Row


def list_schemes(json: bool) -> None:
    """The residual schemes, each with its formula; --json: all that is known of them."""
    from attnres_cli.residual.registry import described_schemes

    found = described_schemes()
    if json:
        from attnres_cli.cli.console import print_json

        print_json("schemes", {"schemes": [asdict(each) for each in found]})
        return
    rows = tuple({"name": each.name, "formula": each.formula} for each in found)
    print_table("schemes", (("name", "name"), ("formula", "formula")), rows)
    typer.echo("what each is, its keys and its source: docs/residuals.md, or --json", err=True)


def print_ablations(found: tuple[Entry, ...]) -> None:
    """The overlays that are rows of the paper's ablations, a line per row."""
    rows: list[Row] = []
    for entry in found:
        first = True
        for paper in entry.paper_rows or (None,):
            said: Row = {"where": "control", "row": entry.summary, "loss": ""}
            if paper is not None:
                said = {"where": paper.table, "row": paper.row, "loss": f"{paper.validation_loss:.3f}"}
            rows.append({"name": entry.name if first else "", **said})
            first = False
    columns = (("name", "name"), ("where", "paper"), ("row", "row"), ("loss", "loss"))
    print_table("ablations", columns, tuple(rows))
    typer.echo("loss: the paper's, in nats, 32 sublayers, 87.9 B tokens. Put one on a preset: --overlay NAME", err=True)


def print_table(key: str, columns: tuple[tuple[str, str], ...], rows: tuple[Row, ...]) -> None:
    """A table of (key, heading) columns on stdout."""
    from attnres_cli.cli.output import print_document
    from attnres_cli.report.document import Document
    from attnres_cli.report.table import Column, Table

    table = Table(key, "", tuple(Column(name, heading) for name, heading in columns), rows)
    print_document(Document(key, (table,)), "table")
