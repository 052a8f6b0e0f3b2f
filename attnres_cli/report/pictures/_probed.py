"""What `attnres probe` left in a run, as lists of plain numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.picture import Numbers
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.metrics import number
from attnres_cli.runs.probed import read_arrays


@dataclass(frozen=True)
class Probed:
    """The latest findings of one probe. tokens: of the validation set, that it looked at. arrays: nested lists."""

    step: int
    tokens: int | None
    summary: Mapping[str, Any]
    arrays: Mapping[str, Any]

    def numbers(self, name: str) -> Numbers | None:
        """An array of one dimension; None where there is none of that name."""
        found = self.arrays.get(name)
        return None if found is None else _plain(found)

    def rows(self, name: str) -> tuple[Numbers, ...] | None:
        """An array of two dimensions."""
        found = self.arrays.get(name)
        return None if found is None else tuple(_plain(row) for row in found)

    def number(self, name: str) -> float | None:
        """A number of the summary."""
        return number(self.summary, name)

    def listed(self, name: str) -> list[Mapping[str, Any]]:
        """A list of objects in the summary."""
        found = self.summary.get(name)
        return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def probed(run: ComparedRun, name: str) -> Probed | None:
    """None where the run was not probed, or the scheme has nothing of the kind."""
    directory = RunDirectory(run.path)
    found = directory.probed(name)
    if found is None or not isinstance(found.get("step"), int):
        return None
    tokens = number(found, "tokens")
    arrays = {key: array.tolist() for key, array in read_arrays(directory, name, found["step"]).items()}
    return Probed(found["step"], None if tokens is None else int(tokens), found["summary"] or {}, arrays)


def _plain(values: Sequence[float]) -> Numbers:
    return tuple(float(value) if math.isfinite(value) else None for value in values)


def probe_words(found: Sequence[Probed]) -> str:
    """What was looked at."""
    steps = sorted({each.step for each in found})
    tokens = sorted({each.tokens for each in found if each.tokens is not None})
    at = f"step {steps[0]:,}" if len(steps) == 1 else f"steps {steps[0]:,} to {steps[-1]:,}"
    return f"probed at {at}" + (f" on {tokens[0]:,} validation tokens" if len(tokens) == 1 else "")
