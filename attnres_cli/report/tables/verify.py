"""What `attnres verify` prints: one row per aspect, the worst of all schemes in it, and every failure in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attnres_cli.report.document import Block, Document, Notice
from attnres_cli.report.table import Cell, Column, Row, Table

Payload = Mapping[str, Any]
Finding = Mapping[str, Any]
RESULTS = {"ok": "ok", "fails": "FAILS", "does not apply": "n/a", "shown": "shown"}
REMARKS = (
    "deviation: the largest difference, over the largest expected value; where schemes share a row, of the worst one",
    "n/a: does not apply, with the reason; shown: a figure that is not judged",
)


def verify_document(payload: Payload) -> Document:
    blocks: list[Block] = [verdict(payload), checks_table(payload)]
    if payload["failed"]:
        blocks.append(Notice("What fails", tuple(_failures(payload["checks"])), "warning"))
    return Document("verify", tuple(blocks), payload)


def verdict(payload: Payload) -> Notice:
    findings = [finding for check in payload["checks"] for finding in check["findings"]]
    counts = {status: sum(each["status"] == status for each in findings) for status in RESULTS}
    judged = counts["ok"] + counts["fails"]
    title = f"{payload['subject']}: {'FAILS' if payload['failed'] else 'all hold'}"
    lines = [f"{counts['ok']} of {judged} hold, {counts['does not apply']} do not apply"]
    if payload["trunk"]:
        trunk = payload["trunk"]
        lines.append(
            f"on {2 * trunk['transformer_blocks']} sublayers of width {trunk['d_model']} in float64: "
            f"{', '.join(f'{name}' for name in payload['schemes'])}"
        )
    return Notice(title, tuple(lines), "warning" if payload["failed"] else "result")


def checks_table(payload: Payload) -> Table:
    return Table(
        key="checks",
        title="Checks",
        columns=(
            Column("check", "check"),
            Column("aspect", "what"),
            Column("result", "result"),
            Column("measured", "deviation", kind="number", decimals=0),
            Column("allowed", "allowed", kind="number", decimals=0),
        ),
        rows=tuple(row for check in payload["checks"] for row in _rows(check)),
        remarks=REMARKS if payload["trunk"] else REMARKS[1:],
    )


def _rows(check: Mapping[str, Any]) -> Iterator[Row]:
    findings: Sequence[Finding] = check["findings"]
    everybody = {finding["subject"] for finding in findings}
    for aspect in dict.fromkeys(finding["aspect"] for finding in findings):
        here = [finding for finding in findings if finding["aspect"] == aspect]
        status = next(each for each in ("fails", "ok", "shown", "does not apply") if _of(here, each))
        worst = max(_of(here, status), key=_severity)
        yield {
            "check": check["title"],
            "aspect": aspect,
            "result": Cell(status, text=RESULTS[status], note=_note(here, everybody)),
            "measured": _figure(worst["measured"]),
            "allowed": _figure(worst["allowed"]),
        }


def _of(findings: Sequence[Finding], status: str) -> list[Finding]:
    return [finding for finding in findings if finding["status"] == status]


def _severity(finding: Finding) -> float:
    """Measured over allowed; what is not finite is worst."""
    measured, allowed = finding["measured"], finding["allowed"]
    if measured is None:
        return 0.0
    if measured != measured:
        return float("inf")
    return float(measured / allowed) if allowed else float(measured)


def _figure(value: float | None) -> Cell:
    """A figure with a text of its own: a column's common format would show 1e-15 beside 1e-1 as nothing."""
    if value is None:
        return Cell(None, text="")
    whole = value == int(value) if abs(value) < 1e6 else False
    return Cell(value, text=f"{value:g}" if whole else f"{value:.1e}")


def _note(findings: Sequence[Finding], everybody: set[str]) -> str | None:
    """What is said of findings that do not fail; those who say the same are named together."""
    said: dict[str, list[str]] = {}
    for finding in findings:
        if finding["status"] != "fails" and finding["detail"]:
            said.setdefault(finding["detail"], []).append(finding["subject"])
    parts = []
    for detail, subjects in said.items():
        who = "" if len(set(subjects)) == len(everybody) else f"{'; '.join(dict.fromkeys(subjects))}: "
        parts.append(who + detail)
    return " | ".join(parts) or None


def _failures(checks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for check in checks:
        for finding in _of(check["findings"], "fails"):
            who = f" ({finding['subject']})" if finding["subject"] else ""
            figures = ""
            if finding["measured"] is not None and finding["allowed"] is not None:
                figures = f" {_figure(finding['measured']).text} > {_figure(finding['allowed']).text};"
            yield f"{check['title']}, {finding['aspect']}{who}:{figures} {finding['detail'] or ''}".rstrip()
