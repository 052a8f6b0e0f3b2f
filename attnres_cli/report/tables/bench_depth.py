"""What `attnres bench --depth` prints: one row for every depth and arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnres_cli.report.document import Block, Document, Notice
from attnres_cli.report.table import Column, Table
from attnres_cli.report.tables.bench import (
    arm_row,
    backend_remarks,
    compile_table,
    how_text,
    judgement,
    quality_remarks,
    ratio_text,
    setting_text,
)

Payload = Mapping[str, Any]
Arm = Mapping[str, Any]


def depth_document(payload: Payload) -> Document:
    blocks: list[Block | None] = [
        Notice(f"Bench of {payload['preset']} by depth", tuple(headline(payload)), "result"),
        depth_table(payload),
        compile_table(payload),
        *judgement(payload),
    ]
    return Document("bench-depth", tuple(block for block in blocks if block is not None), payload)


def headline(payload: Payload) -> list[str]:
    """How the ratio of each arm grows from the first depth to the last."""
    depths = [bench["transformer_blocks"] for bench in payload["depths"]]
    first, last = _at(payload, depths[0]), _at(payload, depths[-1])
    unit, base = payload["load"]["unit"], _scheme(first[0])
    how = how_text(payload)
    return [
        f"{_scheme(small)}: {unit} {ratio_text(small['ratio'])} of {base} at {_blocks(depths[0])}"
        + (f", {ratio_text(large['ratio'])} at {depths[-1]}" if len(depths) > 1 else "")
        + f" ({how})"
        for small, large in zip(first[1:], last[1:], strict=True)
    ]


def depth_table(payload: Payload) -> Table:
    rows: list[dict[str, Any]] = []
    for bench in payload["depths"]:
        arms = _at(payload, bench["transformer_blocks"])
        for arm in arms:
            row = arm_row(arm, is_baseline=arm is arms[0])
            rows.append({**row, "transformer_blocks": bench["transformer_blocks"], "arm": _scheme(arm)})
    rounds = len(payload["arms"][0]["wall_seconds"])
    remarks = [f"{rounds} rounds of all arms of a depth in turn; ratios are to the first arm of the same depth"]
    remarks += backend_remarks(payload["arms"])
    for bench in payload["depths"]:
        remarks += [f"{_blocks(bench['transformer_blocks'])}: {text}" for text in quality_remarks(bench)]
    return Table(
        key="depth",
        title=f"{payload['load']['unit'].capitalize()} by depth",
        columns=(
            Column("transformer_blocks", "blocks", kind="count"),
            Column("arm", "arm"),
            Column("step_seconds", "time", "ms", "number", scale=1000, digits=4),
            Column("step_ratio", "ratio", "×", "number", decimals=3),
            Column("interval", "interval"),
            Column("peak_bytes", "memory", kind="bytes", digits=4),
            Column("peak_ratio", "ratio", "×", "number", decimals=3),
        ),
        rows=tuple(rows),
        caption=setting_text(payload),
        remarks=tuple(remarks),
    )


def _blocks(count: int) -> str:
    return f"{count} block{'s' * (count != 1)}"


def _at(payload: Payload, depth: int) -> Sequence[Arm]:
    return [arm for arm in payload["arms"] if arm["transformer_blocks"] == depth]


def _scheme(arm: Arm) -> str:
    """An arm's name without the depth that is put behind it."""
    return str(arm["name"]).rpartition("@")[0]
