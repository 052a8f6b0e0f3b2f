"""Oracles of the tables that list: sweeps, the runs of one, those without a result, and what cannot be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.recomputed.harness import Rows
from tests.recomputed.sweeps_files import Files, Planned, own_flops, own_steps


def _place(files: Files, each: Planned) -> dict[str, Any]:
    arm = f"{each.row['arm']} {each.trial}" if each.trial else each.row["arm"]
    cell = {"cell": each.row["cell"]} if any(other.row["cell"] for other in files.everything) else {}
    return {**cell, "arm": arm, "seed": each.seed, "status": each.status}


def _step(each: Planned) -> int:
    return 0 if each.run is None else int(each.run.state["step"])


def unfinished(files: Files) -> Rows:
    """Every run without a result, and why."""
    return [
        {**_place(files, each), "step": _step(each), "reason": reason(each)}
        for each in files.everything
        if each.status != "finished"
    ]


def reason(each: Planned) -> str:
    """A failure is named by its kind of error; a run that has not begun has none."""
    error = each.error
    if error is None:
        return "—"
    return f"RuntimeError: {error}" if each.status == "failed" and each.run is not None else error


def runs(files: Files) -> Rows:
    """Every run: how far it is, and its loss."""
    return [
        {
            **_place(files, each),
            "step": _step(each),
            "steps": None if each.run is None else each.run.state["steps"],
            "loss": each.last and each.last["loss"],
            "folder": each.row["folder"],
        }
        for each in files.everything
    ]


def found(files: Files) -> list[dict[str, float | None]]:
    """What sweep.json and --json say of every run, beside the tables."""
    rows = []
    for each in files.everything:
        run = each.run or files.trained(*each.place)
        trained = [] if each.run is None else each.run.train_rows
        rows.append(
            {
                "seed": run.seed if each.run else each.seed,
                "planned_tokens": own_steps(run) * run.resolved["train"]["tokens_per_step"],
                "flops": own_flops(run),
                "step": _step(each),
                "steps": None if each.run is None else each.run.state["steps"],
                **{key: each.last and each.last[key] for key in ("tokens", "loss", "perplexity", "bits_per_byte")},
                "train_seconds": trained[-1]["train_seconds"] if trained else None,
            }
        )
    return rows


def impossible(files: Files) -> Rows:
    """Cells and arms that cannot be. Whether they cannot is the planner's business; here only nothing is added."""
    rows = [
        {"cell": each["key"] or None, "arm": each["arm"], "reason": each["reason"]}
        for each in files.document["impossible"]
    ]
    return [{key: value for key, value in row.items() if any(each[key] for each in rows)} for row in rows]


def sweeps(folders: Sequence[Path]) -> Rows:
    """A row per sweep below the runs folder, by name."""
    rows: Rows = []
    for folder in sorted(folders):
        files = Files(folder)
        statuses = [each.status for each in files.everything]
        rows.append(
            {
                "status": json.loads((folder / "sweep.json").read_text())["status"],
                "finished": statuses.count("finished"),
                "runs": len(statuses),
                "failed": statuses.count("failed") + statuses.count("diverged"),
                "arms": len({each.row["arm"] for each in files.everything}),
                "seeds": len({each.seed for each in files.everything if not each.trial}),
                "created": files.document["created"],
                "name": folder.name,
            }
        )
    return rows


ORACLES = {"unfinished": unfinished, "runs": runs, "impossible": impossible, "sweeps": sweeps}
BUILT_IN = {
    "unfinished": "report/tables/sweep_runs.py",
    "runs": "report/tables/sweep_runs.py",
    "impossible": "report/tables/sweep_runs.py",
    "sweeps": "report/tables/sweeps.py",
}
