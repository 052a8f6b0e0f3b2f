"""What the document of a tune says: per arm its trials, the best of them, and whether that is an optimum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnres_cli.analysis.tuning import Outcome, Search, Trial, next_trials, outcome
from attnres_cli.report.sweep_results import SweepDocument

QUERY_FACTOR = "query_lr_factor"
# By axis of the search, the key that a trial says it under.
KEYS = {"rate": "learning_rate", "decay": "weight_decay", "query": QUERY_FACTOR}
# The preset's own values: what all arms share before they are tuned.
OWN = Trial()


def search_of(settings: Mapping[str, Any]) -> Search:
    """What the settings of the request ask for."""
    return Search(
        octaves=len(settings["points"]) // 2,
        decay=settings["weight_decay"],
        query=settings[QUERY_FACTOR],
        check=settings["horizon_fraction"] < 1,
        engine=settings.get("engine", "grid"),
        trials=settings.get("trials"),
        sampler_seed=settings.get("sampler_seed", 0),
    )


@dataclass(frozen=True)
class Tuning:
    """Every trial of a tune, by arm. cells: by trial, as in the document. losses: of an arm's trials, the mean over
    seeds in nats; infinite where a seed diverged, absent where one has no result."""

    document: SweepDocument
    cells: Mapping[Trial, Mapping[str, Any]]
    losses: Mapping[str, Mapping[Trial, float]]

    @classmethod
    def of(cls, document: SweepDocument) -> Tuning:
        cells = {Trial(**cell["facts"]["trial"]): cell for cell in document["cells"]}
        trials = {cell["key"]: trial for trial, cell in cells.items()}
        runs: dict[tuple[str, Trial], list[Mapping[str, Any]]] = {}
        for run in document["runs"]:
            runs.setdefault((run["arm"], trials[run["cell"]]), []).append(run)
        losses: dict[str, dict[Trial, float]] = {arm["label"]: {} for arm in document["arms"]}
        for (label, trial), of_seeds in runs.items():
            loss = _loss(of_seeds)
            if loss is not None:
                losses[label][trial] = loss
        return cls(document, cells, losses)

    @property
    def labels(self) -> tuple[str, ...]:
        """The arms, the reference first."""
        return tuple(arm["label"] for arm in self.document["arms"])

    @property
    def search(self) -> Search:
        return search_of(self.document["request"])

    def has_query(self, label: str) -> bool:
        """Whether an arm has depth queries to tune."""
        return any(QUERY_FACTOR in arm["residual"] for arm in self.document["arms"] if arm["label"] == label)

    def outcome(self, label: str) -> Outcome:
        return outcome(self.search, self.losses[label], has_query=self.has_query(label))

    def wanted(self, label: str, search: Search) -> tuple[Trial, ...]:
        """The trials that an arm gets by what is known, those it has had included. search: may be a wider one."""
        return next_trials(search, self.losses[label], has_query=self.has_query(label))

    def value(self, trial: Trial, key: str) -> float | None:
        """One of a trial's values, such as "learning_rate"; None where that was not tuned."""
        value = self.cells[trial]["coordinates"].get(key)
        return None if value is None else float(value)

    def tokens(self, label: str, trial: Trial) -> int:
        """Training tokens of an arm's trial."""
        key = self.cells[trial]["key"]
        return next(int(run["planned_tokens"]) for run in self.document["runs"]
                    if (run["cell"], run["arm"]) == (key, label))  # fmt: skip

    def searched(self, label: str) -> Trial | None:
        """The best of the trials at the search's horizon; None where none has a finite loss."""
        known = {trial: loss for trial, loss in self.losses[label].items() if not trial.full and math.isfinite(loss)}
        return min(known, key=lambda trial: known[trial]) if known else None

    def own_loss(self, label: str) -> float | None:
        """At the best of the trials at the search's horizon."""
        best = self.searched(label)
        return None if best is None else self.losses[label][best]


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def difference(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or theirs is None else ours - theirs


def seeds_words(n: int) -> str:
    """ "one tuning seed", "3 tuning seeds"."""
    return f"{'one' if n == 1 else n} tuning seed{'s' * (n > 1)}"


def _loss(runs: list[Mapping[str, Any]]) -> float | None:
    if any(run["status"] == "diverged" for run in runs):
        return math.inf
    losses = [run["loss"] for run in runs if run["status"] == "finished" and run["loss"] is not None]
    return math.fsum(losses) / len(losses) if len(losses) == len(runs) else None
