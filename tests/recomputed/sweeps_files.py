"""A folder of runs with a sweep.json, as docs/sweep.md describes it: what was planned from that file, every number from
the run directories.

sweep.json says which run belongs to which cell, arm and seed. That it says the truth is checked here against the run's
own resolved.toml. Losses and whatever else a run has found are read from the run, never from sweep.json.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.recomputed.raw import Run

ENDED = ("finished", "failed", "diverged")


@dataclass(frozen=True)
class Planned:
    """One run of a sweep, and its directory where it has one."""

    row: dict[str, Any]
    run: Run | None

    @property
    def place(self) -> tuple[str, str]:
        return self.row["cell"], self.row["arm"]

    @property
    def seed(self) -> int:
        return int(self.row["seed"])

    @property
    def trial(self) -> str:
        return str(self.row["trial"])

    @property
    def status(self) -> str:
        """A run without a directory has not begun, or was never able to."""
        return str(self.row["status"] if self.run is None else self.run.state["status"])

    @property
    def error(self) -> str | None:
        error: str | None = self.row["error"] if self.run is None else self.run.state["error"]
        return error

    @property
    def loss(self) -> float | None:
        return None if self.run is None else self.run.end_loss

    @property
    def last(self) -> dict[str, Any] | None:
        """The evaluation after the last step, whether or not the run has finished."""
        return None if self.run is None else self.run.evaluation_at(self.run.manifest["tokens"])

    @property
    def train(self) -> dict[str, Any]:
        assert self.run is not None, self.row
        return self.run.resolved["train"]


@dataclass(frozen=True)
class Files:
    """A sweep's folder."""

    path: Path

    @cached_property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "sweep.json").read_text())
        return found

    @property
    def labels(self) -> list[str]:
        """The arms, the reference first."""
        return [arm["label"] for arm in self.document["arms"]]

    @property
    def reference(self) -> str:
        return self.labels[0]

    @property
    def cells(self) -> list[dict[str, Any]]:
        return list(self.document["cells"])

    @property
    def seeds(self) -> list[int]:
        return list(self.document["seeds"])

    @cached_property
    def everything(self) -> list[Planned]:
        """Every run in the file's order, trials of learning rates included."""
        arms = {arm["label"]: arm for arm in self.document["arms"]}
        found = [Planned(row, self._directory(row["folder"])) for row in self.document["runs"]]
        for each in found:
            if each.run is not None:
                _check(each, arms[each.row["arm"]])
        folders = {path.parent for path in self.path.glob("**/manifest.json")}
        assert folders == {each.run.path for each in found if each.run is not None}, "a run that sweep.json lacks"
        return found

    def _directory(self, folder: str | None) -> Run | None:
        """A folder may be named for a run that never began."""
        return Run(self.path / folder) if folder and (self.path / folder).is_dir() else None

    @property
    def runs(self) -> list[Planned]:
        """Without the trials that chose a learning rate: no result counts them."""
        return [each for each in self.everything if not each.trial]

    def at(self, cell: str, label: str) -> list[Planned]:
        return [each for each in self.runs if each.place == (cell, label)]

    def losses(self, cell: str, label: str) -> dict[int, float]:
        """Seed → validation loss after the last step, of the runs that have finished."""
        return {each.seed: each.loss for each in self.at(cell, label) if each.loss is not None}

    def is_complete(self, cell: str, label: str) -> bool:
        return len(self.losses(cell, label)) == len(self.at(cell, label)) > 0

    def waits(self, cell: str, *labels: str) -> bool:
        """Whether a run of one of these arms is still to come or under way; one that failed or diverged is not."""
        return any(each.status not in ENDED for label in labels for each in self.at(cell, label))

    def per_token(self, cell: str, label: str) -> float | None:
        """Training FLOPs per token, mixing over depth included; None where no such run was begun."""
        found = {each.run.manifest["flops"]["training_per_token"] for each in self.at(cell, label) if each.run}
        assert len(found) <= 1, "runs that differ in their seed alone cost the same"
        return float(found.pop()) if found else None

    def trained(self, cell: str, label: str) -> Run:
        """One of the runs, for what does not depend on the seed."""
        return next(each.run for each in self.at(cell, label) if each.run is not None)

    def axes(self, coordinates: dict[str, Any]) -> dict[str, Any]:
        """The columns that say where a cell lies."""
        return {f"axis_{axis}": value for axis, value in coordinates.items()}


def own_steps(run: Run) -> int:
    """The steps that a run has not taken over from another one."""
    return int(run.manifest["steps"] - run.manifest.get("branched_from", {}).get("step", 0))


def own_flops(run: Run) -> float:
    """Training FLOPs of these steps."""
    tokens = own_steps(run) * run.resolved["train"]["tokens_per_step"]
    return float(run.manifest["flops"]["training_per_token"] * tokens)


def _check(each: Planned, arm: dict[str, Any]) -> None:
    """A run is what sweep.json says it is: its arm's residual section, its changes, its seed."""
    assert each.run is not None
    resolved = each.run.resolved
    wanted = {f"residual.{key}": value for key, value in arm["residual"].items()}
    wanted |= {**arm["changes"], **each.row["changes"], "train.seed": each.seed}
    for key, value in wanted.items():
        section, _, name = key.partition(".")
        assert resolved[section].get(name) == value, (each.run.name, key)
