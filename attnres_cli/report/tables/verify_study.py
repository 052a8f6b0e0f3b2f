"""What `attnres verify --study` prints: one row per link of the chain, and what each of them rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnres_cli.report.document import Document, Notice
from attnres_cli.report.numbers import duration
from attnres_cli.report.table import Cell, Column, Row, Table

Payload = Mapping[str, Any]


def verify_study_document(payload: Payload) -> Document:
    """payload: preset, groups that are kept, failed, seconds, and links as dictionaries of sweep/chain.py's Link."""
    links = payload["links"]
    failed = [link for link in links if link["status"] == "fails"]
    title = f"The chain from preset to verdict, on {payload['preset']}: {'FAILS' if failed else 'all hold'}"
    count = f"{len(links) - len(failed)} of {len(links)} links hold; {duration(payload['seconds'])}"
    kept = f"; runs kept: {', '.join(payload['groups'])}" if payload["groups"] else ""
    verdict = Notice(title, (count + kept,), "warning" if failed else "result")
    why = tuple(f"{link['check']}, {link['what']}: {link['detail']}" for link in failed)
    notices = (Notice("What fails", why, "warning"),) if failed else ()
    return Document("verify-study", (verdict, _table(links), *notices), payload)


def _table(links: list[Mapping[str, Any]]) -> Table:
    return Table(
        key="links",
        title="Links",
        columns=(
            Column("check", "check"),
            Column("what", "what"),
            Column("result", "result"),
            Column("measured", "figure", kind="number", decimals=3),
            Column("interval", "interval"),
            Column("allowed", "allowed"),
        ),
        rows=tuple(_row(link) for link in links),
        remarks=(
            "losses in nats; A/A fails where a second try, on new runs or samples, fails like the first",
            *dict.fromkeys(f"{link['check']}: {link['detail']}" for link in links if link["status"] == "ok"),
        ),
    )


def _row(link: Mapping[str, Any]) -> Row:
    low, high = link["low"], link["high"]
    return {
        "check": link["check"],
        "what": link["what"],
        "result": Cell(link["status"], text="ok" if link["status"] == "ok" else "FAILS"),
        "measured": _figure(link["measured"]),
        "interval": Cell(None, text="") if low is None or high is None else f"{low:.3f} to {high:.3f}",
        "allowed": link["rule"],
    }


def _figure(value: float | None) -> Cell:
    if value is None:
        return Cell(None, text="")
    return Cell(value, text=f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:.3f}")
