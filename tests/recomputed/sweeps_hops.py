"""Oracles of a hops sweep, by docs/hops.md: what each run solves, from what the observer `answers` saw after its last
step.

A run solves k hops when the share of right answers is at least `solved_accuracy` for k and for every smaller number; an
arm solves the deepest k that more than half of its seeds solve.
"""

from __future__ import annotations

from typing import Any

from tests.recomputed.harness import Rows
from tests.recomputed.raw import Run
from tests.recomputed.statistics import mean
from tests.recomputed.sweeps_files import Files

FIGURES = {"answers": "answers", "accuracy": "accuracy", "answer_loss": "loss"}


def _numbers(files: Files) -> range:
    return range(1, files.document["facts"]["hops"] + 1)


def _seen(run: Run) -> dict[int, dict[str, float]]:
    """Number of hops → answers, accuracy and loss, at the end."""
    last = max((row for row in run.observations if row["observer"] == "answers"), key=lambda row: row["step"])
    summary = last["summary"]
    return {k: {name: summary[key][n] for name, key in FIGURES.items()} for n, k in enumerate(summary["kinds"])}


def _finished(files: Files, cell: str, label: str) -> dict[int, Run]:
    """Seed → run."""
    return {each.seed: each.run for each in files.at(cell, label) if each.status == "finished" and each.run is not None}


def _deepest(files: Files, run: Run) -> int:
    seen, threshold = _seen(run), files.document["facts"]["solved_accuracy"]
    solved = [k for k in _numbers(files) if all(seen[each]["accuracy"] >= threshold for each in range(1, k + 1))]
    return max(solved, default=0)


def _place(files: Files, cell: dict[str, Any], label: str) -> dict[str, Any]:
    return {**files.axes(cell["coordinates"]), "arm": label}


def hops(files: Files) -> Rows:
    rows: Rows = []
    for cell in files.cells:
        for label in files.labels:
            found = _finished(files, cell["key"], label)
            depths = [_deepest(files, run) for run in found.values()]
            most = [k for k in _numbers(files) if 2 * sum(depth >= k for depth in depths) > len(depths)]
            solved = max(most, default=0)
            rows.append(
                {
                    **_place(files, cell, label),
                    "solved": solved if found else None,
                    "seeds": sum(depth >= solved for depth in depths) if found else None,
                    **_means(files, found, "accuracy", "accuracy"),
                }
            )
    return rows


def _means(files: Files, found: dict[int, Run], name: str, column: str) -> dict[str, float | None]:
    seen = [_seen(run) for run in found.values()]
    return {f"{column}_{k}": mean([each[k][name] for each in seen]) if seen else None for k in _numbers(files)}


def hops_by_seed(files: Files) -> Rows:
    rows: Rows = []
    for cell in files.cells:
        for label in files.labels:
            found = _finished(files, cell["key"], label)
            by_seed = {f"seed_{seed}": _deepest(files, found[seed]) if seed in found else None for seed in files.seeds}
            rows.append({**_place(files, cell, label), **by_seed})
    return rows


def hops_loss(files: Files) -> Rows:
    return [
        {
            **_place(files, cell, label),
            **_means(files, _finished(files, cell["key"], label), "answer_loss", "loss"),
        }
        for cell in files.cells
        for label in files.labels
    ]


def hops_payload(files: Files) -> list[dict[str, Any]]:
    """Per finished run, for --json."""
    rows = []
    for each in files.runs:
        if each.status == "finished" and each.run is not None:
            seen = _seen(each.run)
            figures = {name: {str(k): seen[k][name] for k in _numbers(files)} for name in FIGURES}
            rows.append({"seed": each.seed, "deepest_solved": _deepest(files, each.run), **figures})
    return rows


ORACLES = {"hops": hops, "hops_by_seed": hops_by_seed, "hops_loss": hops_loss}
BUILT_IN = dict.fromkeys(ORACLES, "report/sweeps/hops.py")
