"""Depth weights: by run and kind of site, and the sources that are sinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnres_cli.report.probed_run import ProbedRun
from attnres_cli.report.table import Column, Row, Table

PROBE = "depth-weights"
KINDS = {"attention": "attention", "feed_forward": "feed-forward", "output": "output"}


def tables(runs: Sequence[ProbedRun]) -> Iterator[Table]:
    yield Table(
        "depth_weights",
        "Depth weights",
        (
            Column("run", "run"),
            Column("sites", "sites"),
            Column("count", "n", "", "count"),
            Column("embedding_share", "embed.", "share", "number", decimals=3),
            Column("recent_share", "recent", "share", "number", decimals=3),
            Column("maximum", "largest", "share", "number", decimals=3),
            Column("entropy_nats", "entropy", "nats", "number", decimals=3),
            Column("token_deviation", "by token", "std", "number", decimals=4),
        ),
        tuple(row for run in runs for row in _rows(run)),
        "means over the n sites of a kind that have two sources or more; by token: standard deviation of a weight over "
        "tokens, mean over sources; a weight says how much is read, not how much it matters",
        tuple(_sinks(run) for run in runs),
    )


def _rows(run: ProbedRun) -> Iterator[Row]:
    by_kind = run.summary(PROBE).get("by_kind", {})
    for kind, words in KINDS.items():
        if kind in by_kind:
            found = by_kind[kind]
            yield {
                "run": run.label,
                "sites": words,
                "count": found["sites"],
                "entropy_nats": found["entropy"],
                **{key: found[key] for key in ("embedding_share", "recent_share", "maximum", "token_deviation")},
            }


def _sinks(run: ProbedRun) -> str:
    found = [
        f"{sink['source']} (mean weight {sink['mean_weight']:.2f}, at {sink['sites']} of {sink['of_sites']} sites)"
        for sink in run.summary(PROBE).get("sinks", [])
    ]
    return f"{run.label}: sinks, drawn on whatever the token: {', '.join(found)}" if found else f"{run.label}: no sinks"
