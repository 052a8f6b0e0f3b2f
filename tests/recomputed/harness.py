"""Holds every table of a document against the oracles: each table, each row, each number.

An *oracle* of a table is a function of the material (whatever the test made: a folder, paths, an object) to the table's
rows, in the order in which they are shown; a row is {column key: value}. A module of oracles has them in a dict

    ORACLES = {"loss": loss, "verdict": verdict}                      # by the table's key in JSON
    BUILT_IN = {"loss": "report/tables/loss.py"}                      # the file of attnres_cli that builds it

(BUILT_IN is read by test_every_table.py, because different commands have different tables under one key. A value may
be a tuple of files. Where the program computes the key, the key here is the Python text of the expression, as
ast.unparse gives it.)

A test calls `check_document(json.loads(stdout), ORACLES, material)`. It fails for

- a table without an oracle, and an oracle named in `tables` without a table;
- another number of rows;
- a cell that holds a number, or a text with a digit in it, that the oracle does not give: a new column fails until
  somebody recomputes it;
- a cell that is not what the oracle gives: numbers to a relative 1e-9, texts and truth values exactly, None for null;
- a value (other than None) under a key that the table does not have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

Value = float | int | str | bool | None
Rows = list[dict[str, Any]]
Oracle = Callable[[Any], Rows]
# Both sides compute in doubles, in another order. Differences of losses lose some three digits of sixteen.
RELATIVE = 1e-9
# What is exactly zero for one order of summation may be 1e-17 for another.
ABSOLUTE = 1e-13


def check_document(
    payload: Mapping[str, Any],
    oracles: Mapping[str, Oracle],
    material: Any,
    *,
    tables: Collection[str] = (),
    wider: Mapping[str, float] | None = None,
) -> None:
    """Assert that every table of a command's JSON object says what the oracles say.

    tables: keys that must be there (a test of a table that silently left the document would pass). wider:
    {"table.column": relative tolerance} where 1e-9 is too narrow; say why beside it.
    """
    found = payload["tables"]
    assert set(tables) <= set(found), f"expected the tables {sorted(tables)}, found {sorted(found)}"
    assert found, "the document has no table"
    faults: list[str] = []
    for key, table in found.items():
        if key not in oracles:
            faults.append(f"{key}: no oracle recomputes this table")
            continue
        faults += faults_of(key, table, oracles[key](material), wider or {})
    assert not faults, "\n".join(faults)


def faults_of(key: str, table: Mapping[str, Any], expected: Rows, wider: Mapping[str, float]) -> list[str]:
    """What is wrong with one table, one sentence each; empty where every cell is as expected."""
    rows = table["rows"]
    if len(rows) != len(expected):
        return [f"{key}: {len(rows)} rows, the oracle has {len(expected)}"]
    columns = [column["key"] for column in table["columns"]]
    assert len(set(columns)) == len(columns), f"{key}: two columns of one key"
    faults = []
    for number, (row, wanted) in enumerate(zip(rows, expected, strict=True)):
        for column in columns:
            tolerance = wider.get(f"{key}.{column}", RELATIVE)
            fault = _fault(row[column], column in wanted, wanted.get(column), tolerance)
            if fault:
                faults.append(f"{key}, row {number}, {column}: {fault}")
        unknown = sorted(name for name, value in wanted.items() if name not in columns and value is not None)
        if unknown:
            faults.append(f"{key}, row {number}: the oracle gives {unknown}, which the table does not have")
    return faults


def as_table(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Plain objects of a JSON document in the form of a table, to hold them against an oracle as tables are."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    return {"columns": [{"key": key} for key in keys], "rows": [{**dict.fromkeys(keys), **row} for row in rows]}


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Nested objects and lists as one object: {"a": [1, {"b": 2}]} is {"a.0": 1, "a.1.b": 2}."""
    if not isinstance(value, (dict, list)):
        return {name: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    inside = [flat(each, f"{name}.{key}" if name else str(key)) for key, each in items]
    return {key: each for found in inside for key, each in found.items()}


def holds_a_number(value: Value) -> bool:
    """Whether a cell needs recomputing: a number, or a text with a digit in it."""
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(value, str):
        return any(character.isdigit() for character in value)
    return True


def same(value: Value, expected: Value, tolerance: float = RELATIVE) -> bool:
    if isinstance(value, bool) or isinstance(expected, bool) or value is None or expected is None:
        return value is expected
    if isinstance(value, str) or isinstance(expected, str):
        return value == expected
    return math.isclose(value, expected, rel_tol=tolerance, abs_tol=ABSOLUTE)


def _fault(value: Value, given: bool, expected: Value, tolerance: float) -> str:
    if not given:
        return f"{value!r} is a number that no oracle gives" if holds_a_number(value) else ""
    return "" if same(value, expected, tolerance) else f"{value!r}, but the oracle says {expected!r}"
