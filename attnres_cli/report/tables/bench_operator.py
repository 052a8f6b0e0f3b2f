"""What `attnres bench --operator` prints: how far each back end's residual path is from the machine's floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnres_cli.report.document import Document, Notice
from attnres_cli.report.table import Cell, Column, Table
from attnres_cli.report.tables.bench import interval_text, judgement, machine_text, quality_remarks

Payload = Mapping[str, Any]
Arm = Mapping[str, Any]
PASSES = {"forward": "forward", "both": "forward and backward"}
RULE = (
    "bytes: every site reads each of its sources once and writes its result; backward, a source costs its own value, a "
    "gradient for each of its mixtures, and its own gradient; no site leaves anything in a cache for another",
    "FLOPs: a multiply-add is two, backward twice forward; floor: the bytes at the copy's speed, or the FLOPs at the "
    "matrix product's where that is longer; below 1: what the count moves to memory stayed in a cache, or sites "
    "shared a pass",
)


def operator_document(payload: Payload) -> Document:
    passes = [table for key in PASSES if (table := operator_table(payload, key)) is not None]
    notice = Notice(f"Residual path of {payload['preset']} alone", tuple(headline(payload)), "result")
    return Document("bench-operator", (notice, *passes, *judgement(payload)), payload)


def headline(payload: Payload) -> list[str]:
    """The fastest back end of each scheme, forward and backward."""
    lines = []
    for scheme in dict.fromkeys(arm["scheme"] for arm in payload["arms"]):
        arms = [arm for arm in payload["arms"] if arm["scheme"] == scheme and arm["passes"] == "both"]
        best = min(arms, key=lambda arm: float(arm["metrics"]["seconds"]))
        lines.append(
            f"{scheme}: {best['metrics']['seconds'] * 1000:.4g} ms by {best['backend']}, "
            f"×{best['ratio']['median']:.2f} {interval_text(best['ratio'])} of the floor"
        )
    return lines


def operator_table(payload: Payload, passes: str) -> Table | None:
    arms = [arm for arm in payload["arms"] if arm["passes"] == passes]
    if not arms:
        return None
    is_last = passes == "both"
    return Table(
        key=f"operator_{passes}",
        title=PASSES[passes].capitalize(),
        columns=(
            Column("scheme", "scheme"),
            Column("backend", "back end"),
            Column("seconds", "time", "ms", "number", scale=1000, digits=4),
            Column("moved_bytes", "moves", kind="bytes"),
            Column("bytes_per_second", "GB/s", "", "number", scale=1e-9),
            Column("flops_per_second", "GFLOP/s", "", "number", scale=1e-9),
            Column("floor_ratio", "floor", "×", "number", decimals=2),
            Column("peak_bytes", "holds", kind="bytes"),
        ),
        rows=tuple(_row(arm) for arm in arms),
        caption=_caption(payload),
        remarks=(*RULE, *_quality(payload, arms)) if is_last else (),
    )


def _row(arm: Arm) -> dict[str, Any]:
    return {
        "scheme": arm["scheme"],
        "backend": Cell(arm["backend"], note=None if arm["fused"] else "site by site: no fused form here"),
        **arm["metrics"],
    }


def _caption(payload: Payload) -> str:
    ceilings, model = payload["ceilings"], payload["model"]
    return (
        f"{2 * model['transformer_blocks']} sublayers of width {model['d_model']}, "
        f"{payload['load']['tokens']:,} tokens, {payload['precision']}; {machine_text(payload['setting'])}; "
        f"copy {ceilings['copy_bytes_per_second'] / 1e9:.3g} GB/s, "
        f"matrix product {ceilings['matrix_flops_per_second'] / 1e9:.3g} GFLOP/s"
    )


def _quality(payload: Payload, arms: Sequence[Arm]) -> list[str]:
    rounds = len(arms[0]["wall_seconds"])
    return [f"{rounds} rounds of all arms and both ceilings in turn; wall time", *quality_remarks(payload)]
