"""Comparisons of fabricated groups, for the tests of arms of several runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnres_cli.report.compare import compare_document
from attnres_cli.report.compared_run import ComparedRun, read_run
from attnres_cli.report.comparison import Comparison, SideBySide
from attnres_cli.report.document import render
from attnres_cli.report.grouping import group_by_arm
from attnres_cli.runs.directory import RunDirectory
from tests.fabricated_runs import BLOCK_SCHEME, FULL_SCHEME, bench_result, fabricate_arm

BASE, BLOCK, FULL = "prenorm", "attnres-block", "attnres-full"
SHOWN = (0.050, 0.061, 0.045, 0.055, 0.052)
NOT_SHOWN = (0.010, -0.021, 0.015, 0.005, -0.003)


def baseline(root: Path, count: int = 5, **how: Any) -> list[RunDirectory]:
    return fabricate_arm(root, BASE, **{"better_by": [0.0] * len(how.get("seeds", range(count))), **how})


def block(root: Path, better_by: Sequence[float] = SHOWN, **how: Any) -> list[RunDirectory]:
    return fabricate_arm(
        root, BLOCK, **{"residual": BLOCK_SCHEME, "better_by": better_by, "began": 1, "flops_per_token": 1.02e6, **how}
    )


def full(root: Path, better_by: Sequence[float] = NOT_SHOWN, **how: Any) -> list[RunDirectory]:
    return fabricate_arm(
        root, FULL, **{"residual": FULL_SCHEME, "better_by": better_by, "began": 2, "flops_per_token": 1.05e6, **how}
    )


def read(runs: Sequence[RunDirectory]) -> list[ComparedRun]:
    return [read_run(run, run.name) for run in runs]


def comparison(runs: Sequence[RunDirectory], *, slower: float | None = 1.3, baseline: str | None = None) -> Comparison:
    """slower: how much longer each further arm takes in the bench; None for no bench."""
    grouping = group_by_arm(read(runs), baseline=baseline)
    if slower is None:
        return Comparison.of_groups(grouping, bench_note="--no-bench")
    names = ["x", "y", "z"][: max(2, len(grouping.arms))]
    timed = dict(zip((arm.label for arm in grouping.arms), names, strict=False))
    return Comparison.of_groups(grouping, SideBySide(bench_result(names, slower=slower), timed))


def as_json(found: Comparison) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(render(compare_document(found), "json"))
    return document


def raw(run: RunDirectory, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    """The lines of a JSONL file, read without the program."""
    return [json.loads(line) for line in (run.path / name).read_text().splitlines()]


def end(run: RunDirectory, key: str = "loss") -> float:
    """A figure of the last evaluation, read without the program."""
    value: float = [row for row in raw(run) if row["kind"] == "eval"][-1][key]
    return value


def planned_by_a_study(
    root: Path,
    runs: Sequence[RunDirectory],
    *,
    seeds: Sequence[int],
    tuning: Sequence[int] = (0, 0),
    name: str = "first",
) -> str:
    """Write the sweep file of a study over the runs in the folder `root`, and return the plan's hash.

    seeds: of the plan; runs with other seeds are beyond it. tuning: trials of each arm, in the order of their runs.
    """
    hash_ = hashlib.sha256(name.encode()).hexdigest()
    rows, residuals = [], {}
    for run in runs:
        manifest, digest = run.manifest(), hashlib.sha256(run.name.encode()).hexdigest()
        run.write_manifest({**manifest, "preset_digest": digest})
        arm = manifest["scheme"]
        residuals[arm] = run.resolved()["residual"]
        rows.append({"arm": arm, "seed": manifest["seed"], "digest": digest, "status": "finished"})
    plan = {
        "seeds": list(seeds),
        "horizon_tokens": 204800,
        "arms": [{"label": arm, "tuning": {"trials": trials, "seeds": 1}}
                 for arm, trials in zip(residuals, tuning, strict=True)],
    }  # fmt: skip
    document = {
        "kind": "study",
        "arms": [{"label": arm, "residual": residual} for arm, residual in residuals.items()],
        "cells": [{"key": ""}],
        "runs": rows,
        "request": {"study": {"name": name, "hash": hash_, "plan": plan}},
    }
    (root / "sweep.json").write_text(json.dumps(document))
    return hash_
