"""What a reproduction's claims are tested on: the numbers of every run by seed, and the benches.

All of it is in the sweep's document, so that a table can be printed again without the runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attnres_cli.runs.observed import FIGURES

LOSS = "loss"
WAITING = ("planned", "running", "interrupted")


@dataclass(frozen=True)
class Prior:
    """What is taken for granted before any run. effect: of the claim's figure (of a ratio: its logarithm).
    standard_deviation: of it over seeds. source: where both come from, in words."""

    effect: float
    standard_deviation: float
    source: str


def is_ratio(figure: str) -> bool:
    """Whether a figure is a positive number that is compared by its logarithm."""
    return figure != LOSS and FIGURES[figure][1]


@dataclass(frozen=True)
class Evidence:
    """document: of sweep.json. Places are "cell/arm". seeds: how many of the sweep's seeds a claim was planned with,
    the first of them; None: all. More runs may be there for other claims, and are no evidence for this one."""

    document: Mapping[str, Any]
    seeds: int | None = None

    @property
    def benches(self) -> Mapping[str, Mapping[str, Any]]:
        """Those that were measured, by their key in the plan."""
        found: Mapping[str, Mapping[str, Any]] = self.document.get("measured", {})
        return found

    def values(self, place: str, figure: str) -> dict[int, float]:
        """Seed → the figure at the end of the run; the logarithm of one that is a ratio.

        A run that diverged has the loss of a model that knows nothing, ln(vocabulary), and no other figure.
        """
        found = {}
        for run in self.by_place.get(place, ()):
            if run["status"] == "diverged" and figure == LOSS:
                found[run["seed"]] = math.log(self.document["vocab_size"])
            elif run["status"] == "finished":
                value = run["loss"] if figure == LOSS else run.get("figures", {}).get(figure)
                if value is not None:
                    found[run["seed"]] = math.log(value) if is_ratio(figure) else value
        return found

    def flops(self, place: str) -> float:
        """Training FLOPs of one run."""
        return float(self.by_place[place][0]["flops"])

    def setting(self, place: str, key: str) -> Any:
        """What "section.key" is in the runs at this place."""
        cell, _, label = place.partition("/")
        plan, (section, _, name) = self.document["request"]["plan"], key.partition(".")
        arm = plan["arms"].get(label, {}).get("changes", {})
        preset = self.document["preset"]["values"][section][name]
        return plan["cells"][cell].get(key, arm.get(key, preset))

    def waiting(self, places: Sequence[str]) -> list[str]:
        """Names of the runs at these places that have no result yet."""
        return [
            f"{run['cell']} {run['arm']} seed {run['seed']}"
            for place in places
            for run in self.by_place.get(place, ())
            if run["status"] in WAITING
        ]

    def diverged(self, places: Sequence[str]) -> int:
        return sum(run["status"] == "diverged" for place in places for run in self.by_place.get(place, ()))

    @cached_property
    def by_place(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        found: dict[str, list[Mapping[str, Any]]] = {}
        planned = set(self.document["seeds"][: self.seeds])
        for run in self.document["runs"]:
            if run["seed"] in planned:
                found.setdefault(f"{run['cell']}/{run['arm']}", []).append(run)
        return found
