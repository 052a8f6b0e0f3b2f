"""`attnres compare` of groups: every number of every table, recomputed from the run directories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.recomputed import compared_groups, configuration, inside_models
from tests.recomputed.beside_tables import check_figures, check_remarks
from tests.recomputed.harness import check_document
from tests.recomputed.material import groups, write_bench
from tests.recomputed.remarks import REMARKS

ORACLES = {**compared_groups.ORACLES, **configuration.ORACLES, **inside_models.ORACLES}
TABLES = ("runs", "configuration", "loss", "verdict", "magnitudes", "depth_weights", "cost")
PLAIN, BLOCK, FULL = "prenorm", "attnres-block", "attnres-full"
Said = Callable[..., dict[str, Any]]
LOST = {"status": "diverged", "until_step": 40, "error": "the loss is not a number"}
# Evaluated at the end of its schedule, and not finished all the same.
AT_THE_END = {"status": "interrupted"}
STOPPED = {"status": "interrupted", "until_step": 60}
# Nats by which each run of an arm is better; and what became of some runs.
STUDIES: dict[str, tuple[Mapping[str, Sequence[float]], Mapping[tuple[str, int], Mapping[str, Any]], list[str]]] = {
    "one shown, one not": (
        {PLAIN: [0.0] * 5, BLOCK: [0.051, 0.062, 0.045, 0.055, 0.052], FULL: [0.01, -0.021, 0.015, 0.005, -0.003]},
        {},
        ["better", "not shown"],
    ),
    "shown alone, not among two": (
        {PLAIN: [0.0] * 4, BLOCK: [0.01, 0.03, 0.02, 0.035], FULL: [0.04, 0.0, 0.03, 0.02]},
        {},
        ["not shown", "not shown"],
    ),
    "worse, and runs are lost": (
        {PLAIN: [0.0] * 6, BLOCK: [-0.05, -0.06, -0.045, -0.055, -0.05, -0.06], FULL: [0.01, 0.0, 0.02, 0.0, 0.0, 0.1]},
        {(PLAIN, 5): STOPPED, (BLOCK, 2): LOST, (FULL, 1): AT_THE_END},
        ["worse", "not shown"],
    ),
    "would be better, but diverged": (
        {PLAIN: [0.0] * 4, BLOCK: [0.05, 0.06, 0.045, 0.055]}, {(BLOCK, 3): LOST}, ["diverged"]
    ),
    "two pairs, and one": (
        {PLAIN: [0.0] * 3, BLOCK: [0.05, 0.06], FULL: [0.05]}, {}, ["too few", "too few"]
    ),
    "goes on": (
        {PLAIN: [0.0] * 4, BLOCK: [0.05, 0.06, 0.04, 0.05], FULL: [0.04, 0.05, 0.05, 0.04]},
        {(BLOCK, 3): {"status": "running", "until_step": 70}},
        ["unfinished", "better"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STUDIES)
def test_without_a_bench(name: str, tmp_path: Path, said: Said) -> None:
    better_by, lost, outcomes = STUDIES[name]
    material = groups(tmp_path / "runs", better_by, lost=lost)
    document = said("compare", "group", "--no-bench")
    check_document(document, ORACLES, material, tables=TABLES)
    check_figures(document, material)
    check_remarks(document, material, set(REMARKS) - {"runs"})
    assert [each["outcome"] for each in document["verdicts"]] == outcomes, "the material is not what it is for"


@pytest.mark.parametrize("slower", [(1.0, 1.12, 0.91), (1.0, 0.91, 1.12), (1.0, 3.0, 7.0)])
def test_with_a_bench(slower: Sequence[float], bench: Path, tmp_path: Path, said: Said) -> None:
    better_by, lost, _ = STUDIES["one shown, one not"]
    root = tmp_path / "runs"
    material = groups(root, better_by, lost=lost)
    stored = write_bench(bench, root, slower)
    document = said("compare", "group")
    material = replace(material, bench=stored)
    check_document(document, ORACLES, material, tables=(*TABLES, "equal_budgets"))
    check_figures(document, material)
    check_remarks(document, material, set(REMARKS) - {"runs"})
