"""Oracles of studies, by docs/study.md: the plans in ./studies, their arms, what is done, and what so many seeds can
show."""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.recomputed.harness import Rows
from tests.recomputed.statistics import power, smallest_detectable
from tests.recomputed.sweeps_files import Files

LEVEL = 0.05
FEWEST_SEEDS = 3


@dataclass(frozen=True)
class Study:
    """A plan, the group of its runs, and by arm the tune that chose its rate (None: nobody tuned it). is_run: whether
    there are runs of it where the table is made."""

    plan: dict[str, Any]
    group: Files
    tunes: dict[str, Files | None]
    is_run: bool = True


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def hash_of(plan: dict[str, Any]) -> str:
    """SHA-256 over the file's values as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def arms(study: Study) -> Rows:
    rows: Rows = []
    for arm in study.plan["arms"]:
        label = arm["label"]
        runs = study.group.at("", label)
        planned = [each for each in runs if each.seed in study.plan["seeds"]]
        [rate] = {each.train["learning_rate"] for each in runs if each.run is not None}
        tune = study.tunes.get(label)
        trials = 0 if tune is None else len({each.row["cell"] for each in tune.runs if label.endswith(each.row["arm"])})
        rows.append(
            {
                "arm": label,
                "learning_rate": rate,
                "trials": trials,
                "done": sum(each.loss is not None for each in planned) if study.is_run else None,
                "planned": len(study.plan["seeds"]),
            }
        )
    return rows


def studies(plans: list[dict[str, Any]]) -> Rows:
    return [
        {
            "name": plan["name"],
            "hash": hash_of(plan),
            "preset": plan["preset"]["name"],
            "arms": ", ".join(arm["label"] for arm in plan["arms"]),
            "seeds": len(plan["seeds"]),
        }
        for plan in plans
    ]


def power_payload(plan: dict[str, Any]) -> dict[str, Any]:
    """The difference that the seeds show four times in five, and the seeds that the smallest effect of interest takes,
    both at the level that Holm's correction over the arms leaves."""
    spread, seeds, tested = plan["standard_deviation"], len(plan["seeds"]), len(plan["arms"]) - 1
    needed = FEWEST_SEEDS
    while power(plan["smallest_effect"], spread, needed, LEVEL / tested) < 0.8:
        needed += 1
    return {
        "standard_deviation": spread,
        "seeds": seeds,
        "tested": tested,
        "smallest_effect": plan["smallest_effect"],
        "smallest_shown": smallest_detectable(spread, seeds, LEVEL / tested),
        "seeds_needed": needed,
    }


ORACLES = {"arms": arms, "studies": studies}
BUILT_IN = dict.fromkeys(ORACLES, "report/study_documents.py")
