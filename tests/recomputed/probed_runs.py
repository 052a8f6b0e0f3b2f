"""What `attnres probe` left in runs, read as docs/run-directory.md describes it, and the oracle of its first table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.recomputed.harness import Oracle, Rows
from tests.recomputed.raw import Row, Run

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Probed:
    """A run and what was found in the checkpoint of a step. label: its letter."""

    label: str
    run: Run
    step: int

    def said(self, probe: str) -> Row:
        """The JSON object of a probe."""
        found: Row = json.loads((self._folder / f"{probe}.json").read_text())
        return found

    def summary(self, probe: str) -> Row | None:
        return self.said(probe)["summary"]  # type: ignore[no-any-return]

    def array(self, probe: str, name: str) -> Array:
        """float64, as docs/run-directory.md says: a length, a JSON object with places, the numbers."""
        content = (self._folder / f"{probe}.safetensors").read_bytes()
        start = 8 + int.from_bytes(content[:8], "little")
        place = json.loads(content[8:start])[name]
        assert place["dtype"] == "F64"
        begin, end = place["data_offsets"]
        return np.frombuffer(content[start + begin : start + end], "<f8").reshape(place["shape"])

    @property
    def _folder(self) -> Any:
        return self.run.path / "probed" / f"step-{self.step:06}"

    @cached_property
    def blocks(self) -> int:
        return int(self.run.resolved["model"]["transformer_blocks"])


Runs = Sequence[Probed]


def which_runs(runs: Runs) -> Rows:
    return [
        {
            "run": each.label,
            "scheme": each.run.scheme,
            "step": each.step,
            "tokens": each.said("lens")["tokens"],
            "name": each.run.name,
        }
        for each in runs
    ]


def side_by_side(probe: str, array: str, place: str, runs: Runs, *, first: int = 0) -> Rows:
    """A row per place in depth, a column per run."""
    series = {each.label: each.array(probe, array).tolist() for each in runs}
    longest = max(map(len, series.values()))
    return [
        {
            place: first + index,
            **{label: values[index] if index < len(values) else None for label, values in series.items()},
        }
        for index in range(longest)
    ]


ORACLES: dict[str, Oracle] = {"runs": which_runs}
BUILT_IN = {"runs": "report/probe.py"}
