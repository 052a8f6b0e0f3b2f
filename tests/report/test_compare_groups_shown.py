"""How a comparison of groups looks, in a terminal, in Markdown and in a pipe, and how long it takes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from attnres_cli.report.compare import compare_document
from attnres_cli.report.document import Document, render
from attnres_cli.runs.columns import cache_path, keep
from attnres_cli.runs.directory import RunDirectory
from tests.golden_files import check_golden
from tests.report.groups import (
    BASE,
    BLOCK,
    FULL,
    NOT_SHOWN,
    baseline,
    block,
    comparison,
    full,
    read,
)


@pytest.fixture
def arms(tmp_path: Path) -> dict[str, list[RunDirectory]]:
    return {BASE: baseline(tmp_path), BLOCK: block(tmp_path), FULL: full(tmp_path)}


def everyone(arms: dict[str, list[RunDirectory]]) -> list[RunDirectory]:
    return [run for runs in arms.values() for run in runs]


# ------------------------------------------------------------------ how it looks


def five_shown(root: Path) -> list[RunDirectory]:
    return [*baseline(root), *block(root)]


def five_not_shown(root: Path) -> list[RunDirectory]:
    return [*baseline(root), *block(root, NOT_SHOWN)]


def two_seeds(root: Path) -> list[RunDirectory]:
    return [*baseline(root, 2), *block(root, [0.05, 0.06])]


def one_diverged(root: Path) -> list[RunDirectory]:
    gone = {"seeds": [5], "until_step": 40, "status": "diverged", "error": "the loss is not finite at step 41"}
    return [*baseline(root), *baseline(root, **gone), *block(root), *block(root, [0.05], seeds=[5])]


def the_better_arm_diverged(root: Path) -> list[RunDirectory]:
    gone = {"seeds": [5], "until_step": 40, "status": "diverged", "error": "the loss is not finite at step 41"}
    return [*baseline(root, 6), *block(root), *block(root, [0.05], **gone)]


def unfinished_group(root: Path) -> list[RunDirectory]:
    running = {"seeds": [3], "until_step": 60, "status": "running"}
    return [*baseline(root, 4), *block(root, [0.05, 0.06, 0.055]), *block(root, [0.05], **running)]


def three_arms(root: Path) -> list[RunDirectory]:
    return [*baseline(root), *block(root), *full(root)]


@pytest.mark.parametrize(
    "group",
    [five_shown, five_not_shown, two_seeds, one_diverged, the_better_arm_diverged, unfinished_group, three_arms],
    ids=lambda group: group.__name__,
)
def test_groups(tmp_path: Path, group: Callable[[Path], list[RunDirectory]]) -> None:
    text = render(compare_document(comparison(group(tmp_path))), "table", width_columns=80)
    assert max(map(cell_len, text.splitlines())) <= 80
    check_golden(f"compare-{group.__name__.replace('_', '-')}.txt", text)


def test_three_arms_in_markdown(tmp_path: Path) -> None:
    check_golden("compare-three-arms.md", render(compare_document(comparison(three_arms(tmp_path))), "markdown"))


def test_every_table_of_two_arms_fits_80_columns_in_one_piece(arms: dict[str, list[RunDirectory]]) -> None:
    for table in compare_document(comparison(everyone(arms))).tables.values():
        lines = render(Document("x", (table,)), "table", width_columns=80).splitlines()
        rules = [line for line in lines if set(line.strip()) == {"─"}]
        assert len(rules) == 1, f"{table.key} continues below itself"


def test_a_pipe_gets_the_same_words_in_one_line_each(tmp_path: Path) -> None:
    document = compare_document(comparison(five_shown(tmp_path)))
    folded, whole = (render(document, "table", width_columns=width) for width in (80, None))
    assert "\x1b" not in whole
    assert re.sub(r"\s+", " ", folded) == re.sub(r"\s+", " ", whole)


# ------------------------------------------------------------------ speed

ROWS = 10_000
RUNS = 200


def test_two_hundred_long_runs_compare_in_seconds(tmp_path: Path) -> None:
    """From the columnar caches, which a run of this length has once it has ended or was read.

    The runs of an arm share one file of metrics and one cache (hard links): writing half a gigabyte is not the test.
    """
    line = (
        '{"kind": "train", "step": %d, "tokens": %d, "loss": %r, "learning_rate": 0.003, "grad_norm": 0.8, '
        '"grad_norm_trunk": 0.7, "clipped": false, "tokens_per_second": 40960.0, "step_seconds": 0.05, '
        '"train_seconds": %r}\n'
    )
    train = "".join(line % (step, 2048 * step, 3.0 / step, 0.05 * step) for step in range(1, ROWS + 1))
    runs = [
        *baseline(tmp_path, RUNS // 2, observed=False),
        *block(tmp_path, [0.02] * (RUNS // 2), observed=False),
    ]
    for first, *others in (runs[: RUNS // 2], runs[RUNS // 2 :]):
        with first.metrics_path.open("a") as handle:
            handle.write(train)
        for other in others:
            other.metrics_path.unlink()
            other.metrics_path.hardlink_to(first.metrics_path)
        keep(first.metrics_path)
        for other in others:
            cache_path(other.metrics_path).hardlink_to(cache_path(first.metrics_path))
    assert len(read(runs[-1:])[0].train_rows) == ROWS
    began = time.process_time()  # whatever else the machine has to do
    text = render(compare_document(comparison(runs)), "table", width_columns=80)
    seconds = time.process_time() - began
    assert f"{RUNS // 2} pairs" in text
    assert seconds < 5, f"{seconds:.1f} s"
