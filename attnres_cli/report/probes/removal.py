"""Layer removal: what leaving blocks out costs, and how many can go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from attnres_cli.report.probed_run import ProbedRun
from attnres_cli.report.probes._side_by_side import BLOCK, by_depth, by_run, estimate
from attnres_cli.report.table import Cell, Column, Row, Table

PROBE = "removal"


def tables(runs: Sequence[ProbedRun]) -> Iterator[Table]:
    yield by_run(
        PROBE,
        "Layer removal",
        runs,
        (
            Column("whole_loss", "loss", "nats", "number", decimals=4),
            Column("removable_blocks", "removable", "blocks", "count"),
            Column("share_of_depth_that_matters", "matters", "share of depth", "number", decimals=2),
        ),
        _row,
        caption="removable: blocks that can be left out, always the one that costs least, while the loss stays within "
        "1 % of the whole model's",
    )
    for key, array, title, place, first in (
        ("skipped", "skip_delta", "Δloss without one block", BLOCK, 0),
        ("truncated", "truncate_delta", "Δloss without the last blocks", Column("cut", "blocks", "cut", "count"), 1),
        ("swapped", "swap_delta", "Δloss with a block and the next one swapped", BLOCK, 0),
        ("pruned", "pruning_delta", "Δloss by blocks pruned", Column("pruned", "blocks", "pruned", "count"), 1),
    ):
        yield by_depth(
            key,
            title,
            runs,
            place,
            partial(_deltas, array=array),
            first=first,
            caption="nats [95 %], sequence by sequence; ~: not shown to differ from zero",
            remarks=_orders(runs) if array == "pruning_delta" else (),
        )


def _row(run: ProbedRun) -> Row:
    keys = ("whole_loss", "removable_blocks", "share_of_depth_that_matters")
    return {key: run.summary(PROBE).get(key) for key in keys}


def _deltas(run: ProbedRun, array: str) -> list[Cell]:
    ends = [run.numbers(PROBE, f"{array}{end}") for end in ("", "_low", "_high")]
    return [estimate(*each) for each in zip(*ends, strict=False)]


def _orders(runs: Sequence[ProbedRun]) -> list[str]:
    return [
        f"{run.label}: in the order {', '.join(map(str, order))}"
        for run in runs
        if (order := run.summary(PROBE).get("pruning_order"))
    ]
