"""The document of `attnres probe`: which runs, then for every probe its tables with the runs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnres_cli.discovery import load, names
from attnres_cli.report.document import Block, Document, Notice
from attnres_cli.report.probed_run import ProbedRun
from attnres_cli.report.table import Column, Table

PACKAGE = "report.probes"


def probe_document(runs: Sequence[ProbedRun], probes: Sequence[str]) -> Document:
    """JSON has, beside the tables, every summary and array at full precision."""
    payload = {
        "runs": [
            {
                "label": run.label,
                "name": run.name,
                "scheme": run.scheme,
                "step": run.step,
                "probes": {name: {**found, "arrays": run.arrays[name]} for name, found in run.found.items()},
            }
            for run in runs
        ]
    }
    shown = names(PACKAGE)
    blocks = [block for probe in probes if probe in shown for block in _of_probe(probe, runs)]
    return Document("probe", (_runs_table(runs), *blocks), payload)


def _runs_table(runs: Sequence[ProbedRun]) -> Table:
    tokens = {run.tokens for run in runs}
    looked_at = f"; looked at with the first {tokens.pop():,} validation tokens of each" if len(tokens) == 1 else ""
    return Table(
        key="runs",
        title="Probed",
        columns=(
            Column("run", "run"),
            Column("scheme", "scheme"),
            Column("step", "step", kind="count"),
            Column("tokens", "tokens", kind="count"),
            Column("name", "name"),
        ),
        rows=tuple(
            {"run": run.label, "scheme": run.scheme, "step": run.step, "tokens": run.tokens, "name": run.name}
            for run in runs
        ),
        caption=f"step: of the checkpoint{looked_at}; transformer blocks and sublayers are counted from 0",
    )


def _of_probe(probe: str, runs: Sequence[ProbedRun]) -> Iterator[Block]:
    """A probe's tables, and what it says of the runs that have nothing of the kind."""
    with_findings = [run for run in runs if run.summary(probe)]
    if with_findings:
        yield from load(PACKAGE, probe, what="table of probes").tables(with_findings)
    lacking = tuple(f"{run.label}: {sentence}" for run in runs if (sentence := run.nothing(probe)))
    if lacking:
        title = next(str(run.found[probe].get("title", probe)) for run in runs if run.nothing(probe))
        yield Notice(f"{title}: nothing to show", lacking)
