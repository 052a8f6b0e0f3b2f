"""The learning rate of every cell and arm of a sweep, where trials chose it: which rates were tried, and which is best.

Trials are the runs of a sweep document that have a `trial`. No result counts them: they have a seed of their own, and
the lowest of several is low by luck, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from attnres_cli.report.sweep_results import SweepDocument

RATE = "train.learning_rate"

Verdict = Literal["tuned", "edge", "diverged", "waiting", "failed"]


@dataclass(frozen=True)
class TriedRate:
    """One candidate. loss: nats; infinite where it diverged, None where there is no result yet. has_failed: it ended
    without one."""

    run: Mapping[str, Any]
    rate: float
    loss: float | None
    has_failed: bool


@dataclass(frozen=True)
class CellRate:
    """What the trials of an arm in a cell say. tried: ascending by rate, the rule's in the middle."""

    cell: str
    arm: str
    tried: tuple[TriedRate, ...]

    @property
    def is_complete(self) -> bool:
        return all(each.loss is not None for each in self.tried)

    @property
    def of_the_rule(self) -> TriedRate:
        return self.tried[len(self.tried) // 2]

    @property
    def best(self) -> TriedRate | None:
        """The lowest once all have ended; None where nothing has a finite loss, and before."""
        finite = [each for each in self.tried if each.loss is not None and math.isfinite(each.loss)]
        return min(finite, key=_loss) if finite and self.is_complete else None

    @property
    def chosen(self) -> TriedRate | None:
        """What the seeds train with: the best; the rule's where all diverged; None as long as that is open."""
        if not self.is_complete:
            return None
        return self.best or self.of_the_rule

    @property
    def side(self) -> Literal["lowest", "highest"] | None:
        """Which edge of the candidates the best is; the optimum may lie beyond it."""
        if self.best is None:
            return None
        rates = [each.rate for each in self.tried]
        if self.best.rate == min(rates):
            return "lowest"
        return "highest" if self.best.rate == max(rates) else None

    @property
    def verdict(self) -> Verdict:
        if not self.is_complete:
            return "failed" if any(each.has_failed for each in self.tried) else "waiting"
        if self.best is None:
            return "diverged"
        return "edge" if self.side else "tuned"

    def to_dict(self) -> dict[str, Any]:
        chosen = self.chosen
        return {
            "cell": self.cell,
            "arm": self.arm,
            "learning_rate": None if chosen is None else chosen.rate,
            "rule_learning_rate": self.of_the_rule.rate,
            "is_tuned": self.verdict == "tuned",
            "edge": self.side,
            "trials": [
                {
                    "learning_rate": each.rate,
                    "seed": each.run["seed"],
                    "loss": each.loss if each.loss is not None and math.isfinite(each.loss) else None,
                    "status": each.run["status"],
                }
                for each in self.tried
            ],
        }


def cell_rates(document: SweepDocument) -> dict[tuple[str, str], CellRate]:
    """By (cell key, arm label); empty for a sweep whose rates come from a rule."""
    found: dict[tuple[str, str], list[TriedRate]] = {}
    for run in document["runs"]:
        if run.get("trial"):
            loss = math.inf if run["status"] == "diverged" else run["loss"] if run["status"] == "finished" else None
            tried = TriedRate(run, float(run["changes"][RATE]), loss, run["status"] == "failed")
            found.setdefault((run["cell"], run["arm"]), []).append(tried)
    return {
        (cell, arm): CellRate(cell, arm, tuple(sorted(each, key=lambda tried: tried.rate)))
        for (cell, arm), each in found.items()
    }


def _loss(tried: TriedRate) -> float:
    assert tried.loss is not None, "the candidate has ended"
    return tried.loss
