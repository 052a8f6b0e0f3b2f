"""Gradients: how evenly they fall through depth and over kinds of parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnres_cli.report.probed_run import ProbedRun
from attnres_cli.report.probes._side_by_side import BLOCK, by_depth, by_run
from attnres_cli.report.table import Column, Row, Table

PROBE = "gradients"


def tables(runs: Sequence[ProbedRun]) -> Iterator[Table]:
    yield by_run(
        PROBE,
        "Gradients",
        runs,
        (
            Column("parameter_spread", "∇ param", "max/min", "number"),
            Column("parameter_variation", "∇ param", "CV", "number"),
            Column("activation_spread", "∇ act.", "max/min", "number"),
            Column("activation_variation", "∇ act.", "CV", "number"),
        ),
        _row,
        caption="over transformer blocks: norm of the loss's gradient by a block's parameters, and by the stream after "
        "it; CV: standard deviation over mean",
    )
    yield by_depth(
        "gradient_by_block",
        "Parameter gradient norm by block",
        runs,
        BLOCK,
        lambda run: run.numbers(PROBE, "parameter_grad_norm"),
        caption="of the mean loss on the probed tokens, before clipping",
    )
    kinds = list(dict.fromkeys(kind for run in runs for kind in run.summary(PROBE).get("grad_norm_by_kind", {})))
    yield by_depth(
        "gradient_by_kind",
        "Gradient norm by kind of parameter",
        runs,
        Column("kind", "kind"),
        lambda run: [run.summary(PROBE).get("grad_norm_by_kind", {}).get(kind) for kind in kinds],
        names=kinds,
        caption="over all parameters of a kind",
    )


def _row(run: ProbedRun) -> Row:
    spread, variation = (run.summary(PROBE).get(key, {}) for key in ("spread_max_over_min", "coefficient_of_variation"))
    return {
        "parameter_spread": spread.get("parameter"),
        "parameter_variation": variation.get("parameter"),
        "activation_spread": spread.get("activation"),
        "activation_variation": variation.get("activation"),
    }
