"""`attnres compare` of single runs: every number of every table, recomputed from the run directories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.recomputed import compared_runs, configuration, inside_models
from tests.recomputed.arms import Compared
from tests.recomputed.beside_tables import check_figures, check_remarks
from tests.recomputed.harness import check_document
from tests.recomputed.material import single_runs, write_bench
from tests.recomputed.remarks import REMARKS

ORACLES = {**compared_runs.ORACLES, **configuration.ORACLES, **inside_models.ORACLES}
TABLES = ("runs", "configuration", "loss", "magnitudes", "depth_weights", "cost")
Said = Callable[..., dict[str, Any]]


@pytest.fixture
def compared(tmp_path: Path) -> Compared:
    return single_runs(tmp_path / "runs")


def test_without_a_bench(compared: Compared, said: Said) -> None:
    names = [run.name for run in compared.runs]
    document = said("compare", *names, "--no-bench")
    check_document(document, ORACLES, compared, tables=TABLES)
    check_figures(document, compared)
    check_remarks(document, compared, REMARKS)


def test_with_a_bench(compared: Compared, bench: Path, said: Said) -> None:
    """The bench is what was measured: its medians and ratios are recomputed from the samples."""
    root = compared.runs[0].path.parent
    copied = root / ".bench" / bench.name
    copied.parent.mkdir()
    copied.write_bytes(bench.read_bytes())
    document = said("compare", *[run.name for run in compared.runs])
    compared = replace(compared, bench=copied)
    check_document(document, ORACLES, compared, tables=TABLES)
    check_figures(document, compared)
    check_remarks(document, compared, REMARKS)


@pytest.mark.parametrize("slower", [(1.0, 1.1, 0.9), (1.0, 0.9, 1.1), (1.0, 2.0, 1.0)])
def test_with_a_bench_of_other_costs(slower: Sequence[float], compared: Compared, bench: Path, said: Said) -> None:
    stored = write_bench(bench, compared.runs[0].path.parent, slower)
    document = said("compare", *[run.name for run in compared.runs])
    compared = replace(compared, bench=stored)
    check_document(document, ORACLES, compared, tables=TABLES)
    check_figures(document, compared)
    check_remarks(document, compared, REMARKS)


def test_another_baseline(compared: Compared, said: Said) -> None:
    document = said("compare", *[run.name for run in compared.runs], "--no-bench", "--baseline", "mixing")
    compared = replace(compared, baseline="B")
    check_document(document, ORACLES, compared, tables=TABLES)
    check_figures(document, compared)
    check_remarks(document, compared, REMARKS)
