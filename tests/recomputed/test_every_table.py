"""No table of the program about runs is without an oracle, and no oracle looks at what it should check."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import attnres_cli
from tests.recomputed.harness import check_document, flat
from tests.recomputed.tables_of_the_program import columns_of, parsed, tables_below, words_of

HERE = Path(__file__).parent
PROGRAM = Path(attnres_cli.__file__).parent
MAY_IMPORT = {
    "__future__", "collections", "dataclasses", "datetime", "fractions", "functools", "hashlib", "itertools", "json",
    "math", "numpy", "operator", "pathlib", "re", "scipy", "statistics", "tomllib", "typing",
}  # fmt: skip
NOT_OF_RUNS = "it is not about runs: "
# Tables without an oracle, and why.
EXCUSED: dict[str, str] = {
    "cli/data.py": NOT_OF_RUNS + "counts of a corpus",
    "cli/figures.py": NOT_OF_RUNS + "files that were written",
    "cli/preset_tables.py": NOT_OF_RUNS + "lists of presets, schemes and ablations",
    "cli/presets.py": NOT_OF_RUNS + "keys of presets",
    "report/provenance.py": "texts of manifests, word by word, in pages",
    "report/tables/bench.py": NOT_OF_RUNS + "a bench that is measured as it is printed",
    "report/tables/bench_depth.py": NOT_OF_RUNS + "a bench that is measured as it is printed",
    "report/tables/bench_operator.py": NOT_OF_RUNS + "a bench that is measured as it is printed",
    "report/tables/plan.py": NOT_OF_RUNS + "arithmetic over a preset before it is trained",
    "report/tables/verify.py": NOT_OF_RUNS + "checks of the program itself",
    "report/tables/verify_study.py": NOT_OF_RUNS + "checks of the program itself",
}
COMPUTED_KEYS = {("report/tables/sweep_runs.py", "table.key"): "a table of the same file again, with fewer columns"}


def modules_of_oracles() -> Iterator[ModuleType]:
    for path in sorted(HERE.glob("*.py")):
        if "ORACLES" in {node.id for node in ast.walk(parsed(path)) if isinstance(node, ast.Name)}:
            module = import_module(f"tests.recomputed.{path.stem}")
            if not path.stem.startswith("test_"):
                yield module


MODULES = {module.__name__.rpartition(".")[2]: module for module in modules_of_oracles()}


def built_in(module: ModuleType) -> Iterator[tuple[str, str]]:
    """(file, key) of every table that a module has an oracle for."""
    for key, files in module.BUILT_IN.items():
        for file in (files,) if isinstance(files, str) else files:
            yield file, key


def test_every_table_has_an_oracle_or_an_excuse() -> None:
    tables = tables_below(PROGRAM)
    covered = {table for module in MODULES.values() for table in built_in(module)}
    missing = {table for table in tables - covered if table[0] not in EXCUSED and table not in COMPUTED_KEYS}
    assert not missing, "no oracle recomputes these tables"
    assert not covered - tables, "the program does not build these tables any more"
    assert not EXCUSED.keys() - {file for file, _ in tables}, "these files build no table any more"
    assert not EXCUSED.keys() & {file for file, _ in covered}, "an oracle needs no excuse"


@pytest.mark.parametrize("name", MODULES)
def test_every_column_is_known_to_the_oracles(name: str) -> None:
    """Also one that is shown under a condition that no material here meets."""
    words = {word for path in _imported(HERE / f"{name}.py") for word in words_of(path)}
    for file in {file for file, _ in built_in(MODULES[name])}:
        # Another module may have the other tables of the same file.
        others = [each for each, module in MODULES.items() if file in {found for found, _ in built_in(module)}]
        known = words | {word for each in others for word in words_of(HERE / f"{each}.py")}
        ends = tuple(word for word in known if len(word) > 4 and word.startswith("_"))
        missing = {column for column in columns_of(PROGRAM / file) if column not in known and not column.endswith(ends)}
        assert not missing, f"no oracle gives these columns of {file}"


@pytest.mark.parametrize("name", MODULES)
def test_every_oracle_says_what_it_covers(name: str) -> None:
    """BUILT_IN has every oracle's table, or the text of the program's expression where the key is computed."""
    module = MODULES[name]
    computed = {key for key in module.BUILT_IN if not key.isidentifier()}
    assert computed or module.ORACLES.keys() == module.BUILT_IN.keys()


@pytest.mark.parametrize("name", MODULES)
def test_oracles_import_nothing_of_the_program(name: str) -> None:
    for path in _imported(HERE / f"{name}.py"):
        for imported in _imports(path):
            top = imported.partition(".")[0]
            assert top in MAY_IMPORT or imported.startswith("tests.recomputed"), f"{path.name} imports {imported}"


def _imported(path: Path) -> set[Path]:
    """A module of this package and those of the package that it stands on."""
    found, left = set(), [path]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            inside = [HERE / f"{name.removeprefix('tests.recomputed.')}.py" for name in _imports(each)]
            left += [inner for inner in inside if inner.exists()]
    return found


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, "a relative import"
            yield node.module
            if node.module == "tests.recomputed":
                yield from (f"tests.recomputed.{alias.name}" for alias in node.names)


# ------------------------------------------------------------------ the harness itself


def said(*rows: Mapping[str, Any], columns: str = "name number") -> dict[str, Any]:
    return {"tables": {"t": {"columns": [{"key": key} for key in columns.split()], "rows": list(rows)}}}


ROWS = [{"name": "a 1", "number": 0.25}, {"name": "b", "number": None}]
WRONG = {
    "a number is another one": said({"name": "a 1", "number": 0.2500000003}, ROWS[1]),
    "a number is missing": said({"name": "a 1", "number": None}, ROWS[1]),
    "a number is there": said(ROWS[0], {"name": "b", "number": 0.0}),
    "a truth value for a number": said({"name": "a 1", "number": True}, ROWS[1]),
    "a text with a digit is another one": said({"name": "a 2", "number": 0.25}, ROWS[1]),
    "a row is missing": said(ROWS[0]),
    "rows are in another order": said(*reversed(ROWS)),
    "a column is new": said(*({**row, "new": 3} for row in ROWS), columns="name number new"),
    "a text column with a number is new": said(*({**row, "new": "3 of 5"} for row in ROWS), columns="name number new"),
    "a column is gone": said(*ROWS, columns="name"),
    "another table": {"tables": {**said(*ROWS)["tables"], "u": said(*ROWS)["tables"]["t"]}},
    "no table": {"tables": {}},
}


def test_the_harness_accepts_what_is_right() -> None:
    check_document(said({"name": "a 1", "number": 0.25 + 1e-12}, ROWS[1]), {"t": lambda _: ROWS}, None, tables=["t"])


@pytest.mark.parametrize("what", WRONG)
def test_the_harness_sees_what_is_wrong(what: str) -> None:
    with pytest.raises(AssertionError):
        check_document(WRONG[what], {"t": lambda _: ROWS}, None, tables=["t"])


def test_nested_values_are_laid_flat() -> None:
    assert flat({"a": [1, {"b": 2}], "c": "d"}) == {"a.0": 1, "a.1.b": 2, "c": "d"}
