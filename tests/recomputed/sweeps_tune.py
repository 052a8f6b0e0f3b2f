"""Oracles of a tune, by docs/tune.md: every trial, the best of each arm, and the price of the search.

A trial is a set of values (learning rate, weight decay, the queries' learning-rate factor, training tokens); its loss
is the mean over its seeds, and infinite where one diverged. The values are those of the runs' resolved.toml.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tests.recomputed.harness import Rows
from tests.recomputed.statistics import mean
from tests.recomputed.sweeps_arms import seconds
from tests.recomputed.sweeps_files import Files, Planned

MOST_COLUMNS = 4
QUERY = "query_lr_factor"


@dataclass(frozen=True, order=True)
class Trial:
    """Where it lies. The order is that of the table: trials of the whole horizon last, then by rate."""

    tokens: int
    rate: float
    decay: float
    query: float


def _trial(files: Files, each: Planned) -> Trial:
    assert each.run is not None
    train, residual = each.run.resolved["train"], each.run.resolved["residual"]
    query = float(residual.get(QUERY, _middle_factor(files)))
    return Trial(train["horizon_tokens"], train["learning_rate"], train["weight_decay"], query)


def _middle_factor(files: Files) -> float:
    """Of an arm without queries the table shows the value that the others start from."""
    return next((float(arm["residual"][QUERY]) for arm in files.document["arms"] if QUERY in arm["residual"]), 0.0)


def losses(files: Files) -> dict[str, dict[Trial, float]]:
    """Arm → trial → loss; the arm's trials in the order of the table."""
    runs: dict[tuple[str, Trial], list[Planned]] = {}
    for each in files.runs:
        runs.setdefault((each.row["arm"], _trial(files, each)), []).append(each)
    found: dict[str, dict[Trial, float]] = {label: {} for label in files.labels}
    for label, trial in sorted(runs):
        of_seeds = [each.loss for each in runs[label, trial]]
        known = [loss for loss in of_seeds if loss is not None]
        found[label][trial] = mean(known) if len(known) == len(of_seeds) else math.inf
    return found


def _own(files: Files) -> tuple[float, float]:
    """The preset's rate and decay."""
    train = files.document["preset"]["values"]["train"]
    return train["learning_rate"], train["weight_decay"]


def full_tokens(files: Files) -> int:
    return int(files.document["preset"]["values"]["train"]["horizon_tokens"])


def _searched(files: Files, label: str) -> dict[Trial, float]:
    """The trials of the search, without the three that check its winner at the whole horizon."""
    is_checked = files.document["request"]["horizon_fraction"] < 1
    return {
        trial: loss
        for trial, loss in losses(files)[label].items()
        if not (is_checked and trial.tokens == full_tokens(files))
    }


def _lowest(found: dict[Trial, float]) -> Trial | None:
    known = {trial: loss for trial, loss in found.items() if math.isfinite(loss)}
    return min(known, key=lambda trial: known[trial]) if known else None


def _best(files: Files, label: str) -> Trial | None:
    """At the whole horizon where that was checked."""
    every, searched = losses(files)[label], _searched(files, label)
    checked = {trial: loss for trial, loss in every.items() if trial not in searched}
    return _lowest(checked) or _lowest(searched)


def _own_loss(files: Files, label: str) -> float | None:
    searched = _searched(files, label)
    best = _lowest(searched)
    return None if best is None else searched[best]


def _common_loss(files: Files, label: str) -> float | None:
    """At the preset's own values."""
    rate, decay = _own(files)
    searched = _searched(files, label)
    found = [
        searched[trial]
        for trial in searched
        if (trial.rate, trial.decay, trial.query) == (rate, decay, _middle_factor(files))
    ]
    return found[0] if found and math.isfinite(found[0]) else None


def _less(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or theirs is None else ours - theirs


def best(files: Files) -> Rows:
    """own: the lowest loss of the search; common: the one at the preset's values."""
    request, rows = files.document["request"], []
    for label in files.labels:
        found = _best(files, label)
        own, common = _own_loss(files, label), _common_loss(files, label)
        is_reference = label == files.reference
        theirs = _own_loss(files, files.reference), _common_loss(files, files.reference)
        rows.append(
            {
                "arm": label,
                "rate": found and found.rate,
                **({"decay": found and found.decay} if request["weight_decay"] else {}),
                **({"query": found and found.query if _has_query(files, label) else None} if request[QUERY] else {}),
                "own_loss": own,
                "own_difference": None if is_reference else _less(own, theirs[0]),
                "common_loss": common,
                "common_difference": None if is_reference else _less(common, theirs[1]),
            }
        )
    return rows


def _has_query(files: Files, label: str) -> bool:
    return any(QUERY in arm["residual"] for arm in files.document["arms"] if arm["label"] == label)


def trials(files: Files) -> Rows:
    """A row per trial and a column per arm; of many arms a row per arm and trial."""
    found = losses(files)
    every = sorted({trial for of_arm in found.values() for trial in of_arm})
    if len(files.labels) <= MOST_COLUMNS:
        return [
            {
                **_values(files, trial),
                **{f"loss_{label}": _finite(found[label].get(trial)) for label in files.labels},
            }
            for trial in every
        ]
    return [
        {"arm": label, **_values(files, trial), "loss": _finite(found[label][trial])}
        for label in files.labels
        for trial in every
        if trial in found[label]
    ]


def _values(files: Files, trial: Trial) -> dict[str, Any]:
    request = files.document["request"]
    return {
        "rate": trial.rate,
        **({"decay": trial.decay} if request["weight_decay"] else {}),
        **({"query": trial.query} if request[QUERY] else {}),
        **({"tokens": trial.tokens} if request["horizon_fraction"] < 1 else {}),
    }


def _finite(loss: float | None) -> float | None:
    return loss if loss is not None and math.isfinite(loss) else None


def tuned_payload(files: Files) -> list[dict[str, Any]]:
    """Per arm as --json has it. edges have no numbers."""
    request, rows = files.document["request"], []
    for label in files.labels:
        found = _best(files, label)
        values = None
        if found is not None:
            values = {"learning_rate": found.rate}
            values |= {"weight_decay": found.decay} if request["weight_decay"] else {}
            values |= {QUERY: found.query} if request[QUERY] else {}
        rows.append(
            {
                "trials": len(losses(files)[label]),
                "best": values,
                "loss": None if found is None else losses(files)[label][found],
                "search_loss": _own_loss(files, label),
                "common_loss": _common_loss(files, label),
            }
        )
    return rows


# ---------------------------------------------------------------------- before anything runs


def plan(files: Files, budget: dict[str, Any] | None = None) -> Rows:
    """budget: of the plan, which has the timing of a step by arm. points + 2 trials for the rate, points − 1 for every
    further axis, 3 for the check, whose runs are whole ones."""
    request = files.document["request"]
    points, seeds = len(request["points"]), len(files.seeds)
    checks = 3 if request["horizon_fraction"] < 1 else 0
    searches = points + 2 + (points - 1) * (request["weight_decay"] + request[QUERY])
    per_step = files.document["tokens_per_step"]
    short = math.ceil(full_tokens(files) * request["horizon_fraction"] / per_step) * per_step
    tokens = seeds * (searches * short + checks * full_tokens(files))
    rows: Rows = []
    for label in files.labels:
        by_length = {each.train["horizon_tokens"]: each for each in files.runs if each.row["arm"] == label}
        took = {length: seconds(files, each.place[0], label, budget) for length, each in by_length.items()}
        rows.append(
            {
                "arm": label,
                "trials": searches + checks,
                "runs": seeds * (searches + checks),
                "tokens": tokens,
                "flops": tokens * (files.per_token(by_length[short].place[0], label) or math.nan),
                "seconds": seeds * (searches * took[short] + checks * took[full_tokens(files)]),
            }
        )
    return rows


ORACLES = {"best": best, "trials": trials, "plan": plan}
BUILT_IN = dict.fromkeys(ORACLES, "report/tables/tune.py")
