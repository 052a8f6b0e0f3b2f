"""A table as values, and as people read it."""

from __future__ import annotations

from attnres_cli.report.table import Cell, Column, Table

TABLE = Table(
    key="example",
    title="Example",
    columns=(
        Column("run", "run"),
        Column("loss_nats", "loss", "nats", "number", decimals=4),
        Column("delta_nats", "Δ", "nats", "number", decimals=4, signed=True),
        Column("step_seconds", "step", "ms", "number", scale=1000),
        Column("memory_bytes", "memory", kind="bytes"),
        Column("tokens", "tokens", kind="count"),
    ),
    rows=(
        {
            "run": "A",
            "loss_nats": Cell(1.5, note="early"),
            "delta_nats": Cell(None, text="base"),
            "step_seconds": 0.0515,
            "memory_bytes": 3 * 2**20,
            "tokens": 204800,
        },
        {"run": "B", "loss_nats": Cell(1.25, note="early"), "delta_nats": -0.25, "step_seconds": Cell(failed=True)},
    ),
    caption="a caption",
    remarks=("a remark",),
)


def test_people_see_one_unit_and_equal_decimals_down_a_column() -> None:
    shown = TABLE.shown()
    assert shown.headings == ["run", "loss", "Δ", "step", "memory", "tokens"]
    assert shown.units == ["", "nats", "nats", "ms", "MiB", ""]
    assert shown.rows == [
        ["A", "1.5000", "base", "51.5", "3.00", "204,800"],
        ["B", "1.2500", "-0.2500", "!", "—", "—"],
    ]


def test_a_note_is_numbered_once_however_many_cells_it_belongs_to() -> None:
    shown = TABLE.shown()
    assert shown.notes == ["[1] early"]
    assert [row[1] for row in shown.marks] == ["[1]", "[1]"]


def test_programs_get_base_units_at_full_precision() -> None:
    values = TABLE.to_dict()
    assert values["rows"][0] == {
        "run": "A",
        "loss_nats": 1.5,
        "delta_nats": None,
        "step_seconds": 0.0515,
        "memory_bytes": 3 * 2**20,
        "tokens": 204800,
    }
    assert values["rows"][1]["failed"] == ["step_seconds"]
    assert values["rows"][1]["tokens"] is None
    assert values["notes"] == ["early", "a remark"]


def test_truth_values_are_no_numbers() -> None:
    table = Table("t", "", (Column("flag", "flag", kind="number"),), ({"flag": True}, {"flag": 2.0}))
    assert table.shown().rows == [["true"], ["2.00"]]
