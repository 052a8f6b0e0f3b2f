"""Oracles of what `attnres study` prints of plans (docs/study.md), from their files and the runs of their groups."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.recomputed.harness import Oracle, Rows
from tests.recomputed.raw import Run
from tests.recomputed.statistics import power, smallest_detectable

FEWEST = 3


def plan_of(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text())


def _runs(file: Path) -> Iterator[Run]:
    """The runs of a plan's group, which has its name and lies beside the folder of plans."""
    group = file.parent.parent / "runs" / file.stem
    return (Run(path.parent) for path in sorted(group.glob("*/state.json")))


def studies(files: list[Path]) -> Rows:
    """The hash: SHA-256 over the values as JSON with sorted keys."""
    rows = []
    for file in files:
        plan = plan_of(file)
        canonical = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        rows.append(
            {
                "name": plan["name"],
                "hash": hashlib.sha256(canonical.encode()).hexdigest(),
                "preset": plan["preset"]["name"],
                "arms": ", ".join(arm["label"] for arm in plan["arms"]),
                "seeds": len(plan["seeds"]),
            }
        )
    return rows


def arms(files: list[Path]) -> Rows:
    """Of one plan. Done: runs that finished, with a seed of the plan and all that the arm says."""
    [file] = files
    plan = plan_of(file)
    rows = []
    for arm in plan["arms"]:
        rate = arm["changes"].get("train.learning_rate", plan["preset"]["values"]["train"]["learning_rate"])
        own = [
            run
            for run in _runs(file)
            if run.resolved["residual"] == arm["residual"] and run.resolved["train"]["learning_rate"] == rate
        ]
        done = [run for run in own if run.state["status"] == "finished" and run.seed in plan["seeds"]]
        rows.append(
            {
                "arm": arm["label"],
                "scheme": arm["residual"]["scheme"],
                "learning_rate": rate,
                "trials": arm["tuning"]["trials"],
                "tuned_by": arm["tuning"].get("tune"),
                "done": len(done),
                "planned": len(plan["seeds"]),
            }
        )
    return rows


def what_it_can_show(file: Path) -> dict[str, Any]:
    """What so many seeds show four times in five, corrected over all arms but the reference, and how many seeds the
    smallest effect of interest needs."""
    plan = plan_of(file)
    spread, effect, tested = plan["standard_deviation"], plan["smallest_effect"], len(plan["arms"]) - 1
    needed = FEWEST
    while power(effect, spread, needed, 0.05 / tested) < 0.8:
        needed += 1
    return {
        "standard_deviation": spread,
        "seeds": len(plan["seeds"]),
        "smallest_shown": smallest_detectable(spread, len(plan["seeds"]), 0.05 / tested),
        "smallest_effect": effect,
        "seeds_needed": needed,
        "tested": tested,
        "is_enough": needed <= len(plan["seeds"]),
    }


ORACLES: dict[str, Oracle] = {"studies": studies, "arms": arms}
BUILT_IN = dict.fromkeys(("studies", "arms"), "report/study_documents.py")
