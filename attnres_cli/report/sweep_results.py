"""What the document in sweep.json says of its losses: by cell, arm and seed, with means, intervals and paired
differences.

Nothing but the document is read, so a finished sweep reprints without its runs. A run counts where it has finished;
arms are paired by seed, and fewer than three pairs never give a verdict. Nor does a difference that a planned run can
still change: who looks before the end, and again, finds differences that are not there.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from attnres_cli.analysis.multiple import holm
from attnres_cli.analysis.paired import FEWEST_PAIRS, mean_interval, paired_difference
from attnres_cli.report.phrases import listed

SweepDocument = Mapping[str, Any]
FAILURES = ("failed", "diverged")
ENDED = ("finished", *FAILURES)
ALPHA = 0.05
NOT_SHOWN = "~"
UNFINISHED = "…"
Outcome = Literal["lower", "higher", "not shown", "too few", "diverged", "unfinished"]
OUTCOME_WORDS: Mapping[Outcome, str] = {
    "lower": "lower",
    "higher": "higher",
    "not shown": f"not shown ({NOT_SHOWN})",
    "too few": "too few pairs for a verdict",
    "diverged": "no verdict, the better arm lost runs that diverged",
    "unfinished": f"unfinished ({UNFINISHED}), no verdict yet",
}


@dataclass(frozen=True)
class Mean:
    """A mean over n seeds with its 95 % interval; half: half of its width, nan with one seed."""

    value: float
    half: float
    n: int


@dataclass(frozen=True)
class Contrast:
    """Ours minus theirs, paired by seed. half: half the width of the 95 % interval of the mean, p: of "no difference"
    (corrected by Holm once `corrected` was called); both nan with one pair. lost: the arm with the lower mean has a run
    that diverged, so that its other runs may be the better ones for having stayed. unfinished: a planned run of either
    side is still to come; its p is nan, since it is not tested yet."""

    mean: float
    half: float
    p: float
    n: int
    lost: bool = False
    unfinished: bool = False

    @property
    def outcome(self) -> Outcome:
        """ "unfinished" while planned runs are to come; "too few" below three pairs; "not shown" where the interval
        holds 0 or the corrected p is not below 5 %; "diverged" where that would favour an arm that lost runs."""
        if self.unfinished:
            return "unfinished"
        if self.n < FEWEST_PAIRS:
            return "too few"
        if abs(self.mean) <= self.half or self.p >= ALPHA:
            return "not shown"
        if self.lost:
            return "diverged"
        return "lower" if self.mean < 0 else "higher"

    def text(self, decimals: int = 4) -> str:
        """The difference with its sign; "~" before one that is not shown, "…" before one that is not finished."""
        mark = {"not shown": f"{NOT_SHOWN} ", "unfinished": f"{UNFINISHED} "}.get(self.outcome, "")
        rounded = round(self.mean, decimals) + 0.0  # no "-0.0000"
        return f"{mark}{rounded:+.{decimals}f}"

    def to_dict(self) -> dict[str, Any]:
        known = {"low": self.mean - self.half, "high": self.mean + self.half, "p_holm": self.p}
        finite = {key: value if math.isfinite(value) else None for key, value in known.items()}
        return {"mean": self.mean, **finite, "pairs": self.n, "outcome": self.outcome}


@dataclass(frozen=True)
class Results:
    """Every run of a sweep document by (cell key, arm label), but for trials: those chose a rate for the others."""

    document: SweepDocument
    runs: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]

    @classmethod
    def of(cls, document: SweepDocument) -> Results:
        found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for run in document["runs"]:
            if not run.get("trial"):
                found.setdefault((run["cell"], run["arm"]), []).append(run)
        return cls(document, found)

    @property
    def labels(self) -> tuple[str, ...]:
        """The arms, the reference first."""
        return tuple(arm["label"] for arm in self.document["arms"])

    @property
    def num_seeds(self) -> int:
        return len(self.document["seeds"])

    def losses(self, cell: str, label: str) -> dict[int, float]:
        """Final validation loss in nats per token by seed, of every finished run."""
        runs = self.runs.get((cell, label), ())
        return {run["seed"]: run["loss"] for run in runs if run["status"] == "finished" and run["loss"] is not None}

    def mean(self, cell: str, label: str) -> Mean | None:
        """Over the seeds that have finished, None where none has."""
        losses = list(self.losses(cell, label).values())
        if not losses:
            return None
        value, low, high = mean_interval(losses)
        return Mean(value, (high - low) / 2, len(losses))

    def is_complete(self, cell: str, label: str) -> bool:
        """Whether every seed has a loss."""
        runs = self.runs.get((cell, label), ())
        return bool(runs) and len(self.losses(cell, label)) == len(runs)

    def has_failed(self, cell: str, label: str) -> bool:
        return any(run["status"] in FAILURES for run in self.runs.get((cell, label), ()))

    def has_diverged(self, cell: str, label: str) -> bool:
        return any(run["status"] == "diverged" for run in self.runs.get((cell, label), ()))

    def waits_for(self, cell: str, *labels: str) -> bool:
        """Whether a planned run of one of these arms in a cell is still to come or under way. One that failed or
        diverged is not."""
        return any(run["status"] not in ENDED for label in labels for run in self.runs.get((cell, label), ()))

    @property
    def waiting(self) -> list[Mapping[str, Any]]:
        """Every run that is still to come or under way."""
        return [run for runs in self.runs.values() for run in runs if run["status"] not in ENDED]

    def status(self, cell: str, label: str) -> str | None:
        """Where the runs of an arm in a cell stand: that of the first without a loss; None where there are no runs."""
        runs = self.runs.get((cell, label), ())
        return next((str(run["status"]) for run in runs if run["status"] != "finished"), "finished") if runs else None


def contrast(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Contrast | None:
    """The paired difference over the seeds that both have; None where there is none."""
    seeds = [seed for seed in ours if seed in theirs]
    if not seeds:
        return None
    if len(seeds) == 1:
        return Contrast(ours[seeds[0]] - theirs[seeds[0]], math.nan, math.nan, 1)
    found = paired_difference([ours[seed] for seed in seeds], [theirs[seed] for seed in seeds])
    return Contrast(found.mean, (found.high - found.low) / 2, found.p, len(seeds))


Key = tuple[str, str]


def corrected(contrasts: Mapping[Key, Contrast | None], unfinished: Collection[Key] = ()) -> dict[Key, Contrast]:
    """The contrasts of one table with their p-values corrected by Holm over all that have enough pairs.

    unfinished: those that wait for runs, with or without pairs so far. They are counted in with p = 1, so that what is
    shown before they are there stays shown afterwards.
    """
    known = {key: each for key, each in contrasts.items() if each is not None}
    tested = [key for key, each in known.items() if each.n >= FEWEST_PAIRS and key not in unfinished]
    p_values = [*(known[key].p for key in tested), *(1.0 for _ in unfinished)]
    adjusted = dict(zip(tested, holm(p_values), strict=False))
    return {
        key: replace(each, p=math.nan, unfinished=True)
        if key in unfinished
        else replace(each, p=adjusted.get(key, each.p))
        for key, each in known.items()
    }


def against_reference(results: Results) -> dict[Key, Contrast]:
    """By (cell, arm), every arm but the first against the first one in the same cell, corrected over all of them."""
    reference, *others = results.labels
    keys = [(cell["key"], label) for cell in results.document["cells"] for label in others]
    found = corrected(
        {(cell, label): contrast(results.losses(cell, label), results.losses(cell, reference)) for cell, label in keys},
        [key for key in keys if is_unfinished(results, *key)],
    )
    return {
        (cell, label): replace(each, lost=results.has_diverged(cell, label if each.mean < 0 else reference))
        for (cell, label), each in found.items()
    }


def is_unfinished(results: Results, cell: str, label: str) -> bool:
    """Whether the difference of an arm to the first one in a cell waits for runs; False where the arm has none there,
    because it does not fit."""
    return (cell, label) in results.runs and results.waits_for(cell, label, results.labels[0])


def seeds_remarks(results: Results) -> list[str]:
    """What the number of seeds allows to be said, plainly."""
    n, document = results.num_seeds, results.document
    if n == 1:
        lines = ["One seed: single runs without an interval, and no verdict. --seeds 5 gives both."]
    elif n < FEWEST_PAIRS:
        lines = [f"{n} seeds: fewer than {FEWEST_PAIRS} pairs never give a verdict."]
    else:
        lines = [
            f"{n} seeds, paired; ±: 95 % intervals (Student's t); p: paired t-test, corrected by Holm over this "
            f"table; {NOT_SHOWN}: a difference that is not shown."
        ]
    added = n - document["planned_seeds"]
    if added > 0:
        lines.append(
            f"Exploratory: {added} of the {n} seeds were added after results were there. Adding seeds until something "
            "is shown finds differences where there are none."
        )
    if n >= FEWEST_PAIRS and (waiting := results.waiting):
        arms = [label for label in results.labels if any(run["arm"] == label for run in waiting)]
        lines.append(
            f"{UNFINISHED}: unfinished. {len(waiting)} of {sum(map(len, results.runs.values()))} runs are still to "
            f"come, of {listed(arms)}: no verdict on an arm before all of its runs and the reference's are there; "
            "until then it counts in the correction of the others' p."
        )
    return lines
