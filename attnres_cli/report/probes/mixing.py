"""The depth-mixing matrix: its ranks, and how much of a sublayer's input is the embedding and the newest output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnres_cli.report.probed_run import ProbedRun
from attnres_cli.report.probes._side_by_side import by_run
from attnres_cli.report.table import Column, Row, Table

PROBE = "mixing"


def tables(runs: Sequence[ProbedRun]) -> Iterator[Table]:
    yield by_run(
        PROBE,
        "Depth-mixing matrix M",
        runs,
        (
            Column("sites", "size", kind="count"),
            Column("effective_rank", "effective", "rank", "number"),
            Column("embedding_share", "embed.", "share", "number", decimals=3),
            Column("recent_share", "recent", "share", "number", decimals=3),
            Column("token_deviation", "by token", "share", "number", decimals=4),
        ),
        _row,
        caption="M: weight of the embedding and of every sublayer output in what each site reads, mean over tokens; "
        "shares of a row's absolute weights, mean over all sites but the first; effective rank: exp(entropy of the "
        "singular values) with every row's absolute weights adding up to one",
    )


def _row(run: ProbedRun) -> Row:
    matrix = run.arrays[PROBE].get("matrix", [])
    deviation = run.arrays[PROBE].get("token_deviation", [])
    sizes = [sum(map(abs, row)) for row in matrix]
    chosen = [site for site in range(1, len(matrix)) if sizes[site] > 0]

    def mean(values: Sequence[float]) -> float | None:
        return sum(values) / len(values) if values else None

    return {
        "sites": len(matrix),
        "effective_rank": run.summary(PROBE).get("effective_rank"),
        "embedding_share": mean([abs(matrix[site][0]) / sizes[site] for site in chosen]),
        "recent_share": mean([abs(matrix[site][site]) / sizes[site] for site in chosen]),
        "token_deviation": mean([sum(deviation[site]) / sizes[site] / (site + 1) for site in chosen]),
    }
