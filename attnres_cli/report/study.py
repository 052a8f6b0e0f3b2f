"""What a study says of the runs in its group: which were planned before the first of them ran, and which were not.

A verdict on runs that were all planned stands as it is; one on seeds, horizons or arms that were added when results
were there is exploratory. Read from the sweep file of the study's group, which holds the plan and its hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from attnres_cli.analysis.paired import FEWEST_PAIRS, paired_difference
from attnres_cli.analysis.power import pairs_needed, smallest_detectable
from attnres_cli.report.sweep_results import Results, SweepDocument
from attnres_cli.runs.files import json_or_nothing
from attnres_cli.runs.lookup import SWEEP_FILE

ALPHA = 0.05
SHOWN_DIGITS = 12
Label = Literal["planned", "exploratory"]


@dataclass(frozen=True)
class StudyMark:
    """The study of a group. hash: SHA-256 of the plan's content. planned: preset digests of every planned run. seeds
    and horizon_tokens: of the plan. tuning_runs: by arm, how many runs chose its learning rate; 0: nobody tuned it.
    arm_of: by preset digest, the arm of every run in the group."""

    name: str
    hash: str
    planned: frozenset[str]
    seeds: tuple[int, ...]
    horizon_tokens: int
    tuning_runs: Mapping[str, int]
    arm_of: Mapping[str, str]

    @property
    def title(self) -> str:
        """ "study depth (plan 3f2a9c…)"; enough of the hash to tell plans apart."""
        return f"study {self.name} (plan {self.hash[:SHOWN_DIGITS]})"


def study_of(document: SweepDocument) -> StudyMark | None:
    """The study whose runs a sweep document holds; None for any other sweep, and for a document that says anything
    else."""
    try:
        study = document["request"]["study"]
        plan = study["plan"]
        seeds = tuple(int(seed) for seed in plan["seeds"])
        planned = frozenset(str(run["digest"]) for run in document["runs"] if run["seed"] in seeds)
        tuning = {str(arm["label"]): int(arm["tuning"]["trials"] * arm["tuning"]["seeds"]) for arm in plan["arms"]}
        arm_of = {str(run["digest"]): str(run["arm"]) for run in document["runs"]}
        name, hash_, horizon = str(study["name"]), str(study["hash"]), int(plan["horizon_tokens"])
        return StudyMark(name, hash_, planned, seeds, horizon, tuning, arm_of)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def study_of_group(folder: Path) -> StudyMark | None:
    """The study of a group of runs; None where the folder is none's."""
    return study_of(json_or_nothing(folder / SWEEP_FILE))


def label(study: StudyMark, preset_digest: str) -> Label:
    """Whether a run was planned. preset_digest: of its manifest, which its seed, horizon and arm all decide."""
    return "planned" if preset_digest in study.planned else "exploratory"


def why_exploratory(study: StudyMark, resolved: Mapping[str, Mapping[str, Any]]) -> str:
    """What sets a run that is not planned apart. resolved: its preset, section → key → value."""
    train = resolved.get("train", {})
    reasons = []
    if train.get("seed") not in study.seeds:
        reasons.append(f"seed {train.get('seed')} is not in the plan")
    horizon = train.get("horizon_tokens")
    if horizon != study.horizon_tokens:
        said = f"{horizon:,}" if isinstance(horizon, int) else "an unknown number of"
        reasons.append(f"it trains for {said} tokens, the plan for {study.horizon_tokens:,}")
    return "; ".join(reasons) or "no arm of the plan has these settings"


# ---------------------------------------------------------------------- what a plan can show


@dataclass(frozen=True)
class Power:
    """What n pairs show with probability 0.8 when their differences have this standard deviation (nats), corrected
    over `tested` arms as the verdict will be. seeds_needed: for the smallest effect of interest; None: more than
    anybody trains."""

    standard_deviation: float
    seeds: int
    tested: int
    smallest_effect: float
    smallest_shown: float
    seeds_needed: int | None

    @property
    def is_enough(self) -> bool:
        return self.seeds_needed is not None and self.seeds >= self.seeds_needed


def power_of_plan(standard_deviation: float, seeds: int, tested: int, smallest_effect: float) -> Power:
    """tested: arms beside the reference."""
    alpha = ALPHA / tested
    try:
        needed: int | None = pairs_needed(smallest_effect, standard_deviation, alpha=alpha)
    except ValueError:
        needed = None
    shown = smallest_detectable(standard_deviation, seeds, alpha=alpha)
    return Power(standard_deviation, seeds, tested, smallest_effect, shown, needed)


def spread_of_group(document: SweepDocument) -> float | None:
    """The largest standard deviation of paired differences to the reference in a group's sweep document, in nats; None
    where no arm has enough pairs."""
    results = Results.of(document)
    reference, *others = results.labels
    found = []
    for cell in document["cells"]:
        theirs = results.losses(cell["key"], reference)
        for arm in others:
            ours = results.losses(cell["key"], arm)
            seeds = [seed for seed in ours if seed in theirs]
            if len(seeds) >= FEWEST_PAIRS:
                pairs = [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]
                found.append(paired_difference(*pairs).standard_deviation)
    return max(found) if found else None
