"""What `attnres probe` left in a run, as lists of plain numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.picture import Numbers
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.metrics import number
from attnres_cli.runs.probed import read_arrays


@dataclass(frozen=True)
class Probed:
    """The latest findings of one probe. run: its folder. tokens: of the validation set, that it looked at. arrays:
    nested lists."""

    run: Path
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
    return Probed(run.path, found["step"], None if tokens is None else int(tokens), found["summary"] or {}, arrays)


def _plain(values: Sequence[float]) -> Numbers:
    return tuple(float(value) if math.isfinite(value) else None for value in values)


def probe_words(found: Sequence[Probed]) -> str:
    """What was looked at."""
    steps = sorted({each.step for each in found})
    tokens = sorted({each.tokens for each in found if each.tokens is not None})
    at = f"step {steps[0]:,}" if len(steps) == 1 else f"steps {steps[0]:,} to {steps[-1]:,}"
    return f"probed at {at}" + (f" on {tokens[0]:,} validation tokens" if len(tokens) == 1 else "")


def partly_words(arm: Arm, found: Sequence[Probed]) -> str:
    """Which arm was not probed whole: "1 of 3 runs of prenorm probed"."""
    count = len(arm.counted)
    return f"{len(found)} of {count} runs of {arm.title} probed" if 0 < len(found) < count else ""


def may_be_averaged(probes: Sequence[Probed | None]) -> bool:
    """Whether every run was probed, at one step and on the same tokens: a mean over anything else would mix two
    measurements."""
    return bool(probes) and None not in probes and len({(each.step, each.tokens) for each in probes if each}) == 1


def observers_words(arms: Sequence[Arm], found: Sequence[Probed]) -> str:
    """Why probes are not shown beside or in place of what the observers recorded."""
    if not found:
        return ""
    paths = {each.run for each in found}
    partly = [
        f"{count} of {len(arm.counted)} runs of {arm.title} probed"
        for arm in arms
        if (count := sum(run.path in paths for run in arm.counted)) < len(arm.counted)
    ]
    why = ", ".join(partly) if partly else "probed at different steps or on different tokens"
    return f"shown is what the observers recorded in training ({why})"
