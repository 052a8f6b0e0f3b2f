"""A report as a document of tables and sentences, for formats without pictures."""

from __future__ import annotations

from dataclasses import asdict, replace

from attnres_cli.report.contents import Report
from attnres_cli.report.data_table import data_table
from attnres_cli.report.document import Block, Document, Notice
from attnres_cli.report.picture import Picture, still
from attnres_cli.report.table import Table

# A picture's numbers stand in a text where they are no more than this.
MOST_ROWS, MOST_COLUMNS = 12, 8


def as_document(report: Report) -> Document:
    """The report for formats of text: pictures are their words, and their numbers where these are few."""
    blocks: list[Block] = [Notice(report.title, tuple(_summary(report)), "result")]
    for section in report.sections:
        for item in section.items:
            blocks += [item] if isinstance(item, Table | Notice) else _in_words(item)
    commands = (*report.provenance.commands, *report.checks)
    if commands:
        blocks.append(Notice("Commands", commands))
    said = {
        "title": report.title,
        "headline": report.headline,
        "facts": dict(report.facts),
        "claims": [asdict(claim) for claim in report.claims],
        "provenance": asdict(replace(report.provenance, apart=None)),
        "checks": report.checks,
    }
    return Document("report", tuple(blocks), {**report.document.payload, **said})


def _in_words(picture: Picture) -> list[Block]:
    view = still(picture)
    lines = tuple(part for part in (view.alternative, view.caption) if part)
    table = data_table(view)
    few = len(table.rows) <= MOST_ROWS and len(table.columns) <= MOST_COLUMNS
    return [Notice(picture.title, lines), *([table] if few else [])]


def _summary(report: Report) -> list[str]:
    lines = [report.headline]
    lines += [claim.sentence or f"{claim.words} {claim.figures}".strip() for claim in report.claims]
    facts = "; ".join(f"{what}: {value}" for what, value in report.facts)
    return [*dict.fromkeys(lines), *([facts] if facts else [])]
