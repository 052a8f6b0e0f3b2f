"""The logit lens: the loss of the model closed early."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnres_cli.report.probed_run import ProbedRun
from attnres_cli.report.probes._side_by_side import BLOCKS_PASSED, by_depth, by_run
from attnres_cli.report.table import Column, Row, Table

PROBE = "lens"


def tables(runs: Sequence[ProbedRun]) -> Iterator[Table]:
    yield by_run(
        PROBE,
        "Logit lens",
        runs,
        (
            Column("final_loss", "final loss", "nats", "number", decimals=4),
            Column("depth_at_95_percent", "95 % reached", "blocks", "count"),
            Column("share_of_depth_at_95_percent", "of depth", "share", "number", decimals=2),
        ),
        _row,
        caption="95 % reached: the fewest blocks from which on the model, closed there, keeps 95 % of what all its "
        "blocks take off the embedding's loss",
    )
    yield by_depth(
        "lens_by_depth",
        "Loss when closed after so many blocks",
        runs,
        BLOCKS_PASSED,
        lambda run: run.numbers(PROBE, "loss_after_block"),
        caption="nats per token; 0: the embedding alone",
        decimals=4,
    )


def _row(run: ProbedRun) -> Row:
    keys = ("final_loss", "depth_at_95_percent", "share_of_depth_at_95_percent")
    return {key: run.summary(PROBE).get(key) for key in keys}
