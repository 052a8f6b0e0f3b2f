"""What the document in sweep.json says of its losses: by cell, arm and seed, with means, intervals and paired
differences.

Nothing but the document is read, so a finished sweep reprints without its runs. A run counts where it has finished;
arms are paired by seed, and fewer than three pairs never give a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from attnres_cli.analysis.multiple import holm
from attnres_cli.analysis.paired import FEWEST_PAIRS, mean_interval, paired_difference

SweepDocument = Mapping[str, Any]
FAILURES = ("failed", "diverged")
ALPHA = 0.05
NOT_SHOWN = "~"
Outcome = Literal["lower", "higher", "not shown", "too few", "diverged"]
OUTCOME_WORDS: Mapping[Outcome, str] = {
    "lower": "lower",
    "higher": "higher",
    "not shown": f"not shown ({NOT_SHOWN})",
    "too few": "too few pairs for a verdict",
    "diverged": "no verdict, the better arm lost runs that diverged",
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
    that diverged, so that its other runs may be the better ones for having stayed."""

    mean: float
    half: float
    p: float
    n: int
    lost: bool = False

    @property
    def outcome(self) -> Outcome:
        """ "too few" below three pairs; "not shown" where the interval holds 0 or the corrected p is not below 5 %;
        "diverged" where that would favour an arm that lost runs."""
        if self.n < FEWEST_PAIRS:
            return "too few"
        if abs(self.mean) <= self.half or self.p >= ALPHA:
            return "not shown"
        if self.lost:
            return "diverged"
        return "lower" if self.mean < 0 else "higher"

    def text(self, decimals: int = 4) -> str:
        """The difference with its sign; "~" before one that is not shown."""
        mark = f"{NOT_SHOWN} " if self.outcome == "not shown" else ""
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


def corrected(contrasts: Mapping[Key, Contrast | None]) -> dict[Key, Contrast]:
    """The contrasts of one table with their p-values corrected by Holm over all that have enough pairs."""
    known = {key: each for key, each in contrasts.items() if each is not None}
    tested = [key for key, each in known.items() if each.n >= FEWEST_PAIRS]
    adjusted = dict(zip(tested, holm([known[key].p for key in tested]), strict=True))
    return {key: replace(each, p=adjusted.get(key, each.p)) for key, each in known.items()}


def against_reference(results: Results) -> dict[Key, Contrast]:
    """By (cell, arm), every arm but the first against the first one in the same cell, corrected over all of them."""
    reference, *others = results.labels
    keys = [(cell["key"], label) for cell in results.document["cells"] for label in others]
    found = corrected(
        {(cell, label): contrast(results.losses(cell, label), results.losses(cell, reference)) for cell, label in keys}
    )
    return {
        (cell, label): replace(each, lost=results.has_diverged(cell, label if each.mean < 0 else reference))
        for (cell, label), each in found.items()
    }


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
    return lines
