"""Over-smoothing: how alike the tokens' states become, and how alike what neighbouring sublayers read is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnres_cli.report.probed_run import Numbers, ProbedRun
from attnres_cli.report.probes._side_by_side import BLOCKS_PASSED, by_depth, by_run
from attnres_cli.report.table import Column, Row, Table

PROBE = "smoothing"


def tables(runs: Sequence[ProbedRun]) -> Iterator[Table]:
    yield by_run(
        PROBE,
        "Over-smoothing",
        runs,
        (
            Column("first_cosine", "tokens", "embedding", "number", decimals=3),
            Column("last_cosine", "tokens", "last block", "number", decimals=3),
            Column("first_rank", "rank", "embedding", "number"),
            Column("last_rank", "rank", "last block", "number"),
            Column("input_cosine", "inputs", "cosine", "number", decimals=3),
        ),
        _row,
        caption="tokens: mean cosine of the stream's states of two tokens of a sequence; rank: effective rank of a "
        "sequence's states; inputs: cosine of what neighbouring sublayers read, mean over depth",
    )
    yield by_depth(
        "token_cosine",
        "Token-to-token cosine by depth",
        runs,
        BLOCKS_PASSED,
        lambda run: run.numbers(PROBE, "token_cosine"),
    )
    yield by_depth(
        "state_rank",
        "Effective rank of a sequence's states by depth",
        runs,
        BLOCKS_PASSED,
        lambda run: run.numbers(PROBE, "effective_rank"),
    )


def _row(run: ProbedRun) -> Row:
    cosine, rank = run.numbers(PROBE, "token_cosine"), run.numbers(PROBE, "effective_rank")
    return {
        "first_cosine": _at(cosine, 0),
        "last_cosine": _at(cosine, -1),
        "first_rank": _at(rank, 0),
        "last_rank": _at(rank, -1),
        "input_cosine": _mean(run.numbers(PROBE, "input_cosine")),
    }


def _at(values: Numbers, index: int) -> float | None:
    return values[index] if values else None


def _mean(values: Numbers) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
