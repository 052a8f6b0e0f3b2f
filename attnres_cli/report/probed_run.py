"""A run with what probes found in one of its checkpoints, as plain numbers for tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnres_cli.runs import probed
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.files import Row
from attnres_cli.runs.metrics import number

Numbers = Sequence[float | None]


@dataclass(frozen=True)
class ProbedRun:
    """label: its letter. name: what the user can type. step: of the checkpoint. found: the JSON object of each probe,
    by name. arrays: of each probe, as nested lists. observations: rows of probes/observations.jsonl."""

    label: str
    name: str
    scheme: str
    step: int
    found: Mapping[str, Row]
    arrays: Mapping[str, Mapping[str, Any]]
    observations: Sequence[Row]

    def summary(self, probe: str) -> Mapping[str, Any]:
        """Empty where the run was not probed so, or the scheme has nothing of the kind."""
        return self.found.get(probe, {}).get("summary") or {}

    def nothing(self, probe: str) -> str | None:
        """What the scheme lacks, where it has nothing of the kind."""
        found = self.found.get(probe, {})
        return str(found["nothing"]) if "nothing" in found else None

    def numbers(self, probe: str, array: str) -> Numbers:
        """An array of one dimension; empty where there is none."""
        return [
            value if value is not None and math.isfinite(value) else None
            for value in self.arrays.get(probe, {}).get(array, ())
        ]

    @property
    def tokens(self) -> int | None:
        """Validation tokens that its probes looked at; the same for all of them."""
        tokens = [value for found in self.found.values() if (value := number(found, "tokens")) is not None]
        return int(tokens[0]) if tokens else None


def read_probed_run(run: RunDirectory, label: str, name: str, step: int, probes: Sequence[str]) -> ProbedRun:
    """What there is of these probes at this step."""
    found = {probe: document for probe in probes if (document := probed.read(run, probe, step)) is not None}
    arrays = {
        probe: {key: array.tolist() for key, array in probed.read_arrays(run, probe, step).items()} for probe in found
    }
    residual = run.resolved().get("residual")
    scheme = residual.get("scheme") if isinstance(residual, Mapping) else None
    return ProbedRun(label, name, str(scheme or "?"), step, found, arrays, run.observations())
