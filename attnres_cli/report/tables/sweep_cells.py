"""The cells of a depth-width sweep: their shapes and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnres_cli.report.numbers import short_count
from attnres_cli.report.sweep_grid import QUANTITIES, Grid
from attnres_cli.report.sweep_price import price_sentence
from attnres_cli.report.sweep_results import SweepDocument
from attnres_cli.report.table import Cell, Column, Table
from attnres_cli.report.values import spelt_out


def cells_table(grid: Grid, width_columns: int | None = None) -> Table:
    """Every possible cell: its whole shape, real counts, mismatch and learning rate.

    width_columns: of the terminal; where the whole table is wider, short counts stand beside their mismatch.
    """
    whole = _whole_table(grid)
    return whole if width_columns is None or whole.width_columns <= width_columns else _short_table(grid)


def _whole_table(grid: Grid) -> Table:
    document = grid.document
    match = document["request"]["match"]
    pinned, other = QUANTITIES[match], QUANTITIES["flops" if match == "parameters" else "parameters"]
    others = grid.labels[1:]
    columns = (
        Column("cell", "cell"),
        Column("shape", "L_b×d_model"),
        Column("heads", "heads×size"),
        Column("d_ff", "d_ff", kind="count"),
        Column("realised_ratio", "d/L_b", kind="number", decimals=1),
        *((Column("realised_head_ratio", "H/L_b", kind="number", decimals=2),) if grid.has_head_axis else ()),
        Column("non_embedding_parameters", "non-emb.", kind="count"),
        Column("parameters", "parameters", kind="count"),
        Column("training_flops_per_token", "MFLOP/tok", kind="number", scale=1e-6, digits=4),
        Column("total_flops", "FLOPs", kind="number"),
        Column(f"{pinned[0]}_mismatch", "pinned", unit="%", kind="number", decimals=2, scale=100, signed=True),
        Column(f"{other[0]}_mismatch", "other", unit="%", kind="number", decimals=1, scale=100, signed=True),
        *(
            Column(f"flops_{label}", f"FLOPs {label}", unit="%", kind="number", decimals=1, scale=100, signed=True)
            for label in others
        ),
        _rate_column(document),
    )
    rows = tuple(_cell_row(grid, cell, others) for cell in document["cells"])
    remarks = (
        f"Pinned: {pinned[1]}, to {document['facts']['reference']['counts'][pinned[0]]:,.6g} of the preset's own shape "
        f"({_shape_text(document['facts']['reference']['shape'])}); other: {other[1]} against that shape's.",
        *_common_remarks(document),
    )
    return Table("cells", "Cells", columns, rows, remarks=remarks)


def _short_table(grid: Grid) -> Table:
    """What decides: shape, counts with their difference to the preset's own shape, what the schemes add."""
    document = grid.document
    quantity, words = QUANTITIES[document["request"]["match"]]
    others = grid.labels[1:]
    columns = (
        Column("cell", "cell"),
        Column("shape", "L_b×d"),
        Column("heads", "heads"),
        Column("d_ff", "d_ff"),
        Column("non_embedding_parameters", "non-emb.", unit="Δ %", kind="number"),
        Column("training_flops_per_token", "FLOP/tok", unit="Δ %", kind="number"),
        *(Column(f"flops_{label}", label, "FLOPs %", "number", decimals=1, scale=100, signed=True) for label in others),
        _rate_column(document),
    )
    rows = []
    for cell in document["cells"]:
        row = _cell_row(grid, cell, others)
        for key, decimals in (("non_embedding_parameters", 2), ("training_flops_per_token", 1)):
            text = f"{short_count(row[key])} {100 * cell['facts']['mismatch'][key]:+.{decimals}f}"
            row[key] = Cell(row[key], text=text)
        row["d_ff"] = str(row["d_ff"])
        rate = cell["facts"]["learning_rate"]
        row["learning_rate"] = Cell(rate, text=f"{rate:.3g}")
        rows.append(row)
    remarks = (
        f"Δ %: against the preset's own shape ({_shape_text(document['facts']['reference']['shape'])}), whose "
        f"{document['facts']['reference']['counts'][quantity]:,.6g} {words} are pinned. Heads are number × size.",
        *_common_remarks(document),
    )
    return Table("cells", "Cells", columns, tuple(rows), remarks=remarks)


def _rate_column(document: SweepDocument) -> Column:
    """The rule's rate; where trials chose another, that stands in a table of its own."""
    is_rule = any(run.get("trial") for run in document["runs"])
    return Column("learning_rate", "rule's lr" if is_rule else "peak lr", kind="number")


def _common_remarks(document: SweepDocument) -> tuple[str, ...]:
    remarks = (*_arm_remarks(document), document["facts"]["learning_rate_rule"], price_sentence(document))
    return tuple(remark for remark in remarks if remark)


def _cell_row(grid: Grid, cell: Mapping[str, Any], others: Sequence[str]) -> dict[str, Any]:
    facts = cell["facts"]
    shape, counts, rate = facts["shape"], facts["counts"][grid.labels[0]], facts["learning_rate"]
    flops = counts["training_flops_per_token"]
    total = flops * grid.document["tokens"]
    return {
        "cell": cell["key"],
        "shape": f"{shape['transformer_blocks']}×{shape['d_model']}",
        "heads": _heads_text(shape),
        "d_ff": shape["d_ff"],
        "realised_ratio": facts["realised_ratio"],
        "realised_head_ratio": facts["realised_head_ratio"],
        "non_embedding_parameters": counts["non_embedding_parameters"],
        "parameters": counts["parameters"],
        "training_flops_per_token": flops,
        "total_flops": Cell(total, text=f"{total:.2e}"),
        **{f"{quantity}_mismatch": value for quantity, value in facts["mismatch"].items()},
        **{f"flops_{label}": facts["counts"][label]["training_flops_per_token"] / flops - 1 for label in others},
        "learning_rate": Cell(rate, text=f"{rate:.2e}"),
    }


def _heads_text(shape: Mapping[str, Any]) -> str:
    groups = "" if shape["num_kv_heads"] == shape["num_heads"] else f"/{shape['num_kv_heads']}"
    return f"{shape['num_heads']}{groups}×{shape['head_dim']}"


def _shape_text(shape: Mapping[str, Any]) -> str:
    depth, width = shape["transformer_blocks"], shape["d_model"]
    return f"L_b {depth} × d_model {width}, {shape['num_heads']} heads, d_ff {shape['d_ff']}"


def _arm_remarks(document: SweepDocument) -> list[str]:
    described = []
    for arm in document["arms"]:
        settings = ", ".join(f"{key} = {spelt_out(value)}" for key, value in arm["residual"].items() if key != "scheme")
        described.append(arm["label"] + (f" ({settings})" if settings else ""))
    return [f"Schemes: {'; '.join(described)}. Parameters and FLOPs are those of {document['arms'][0]['label']}."]
