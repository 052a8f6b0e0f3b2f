"""What the sweep file of a group says of runs that are not there: planned ones that have not begun, and seeds that were
added when results were there.

A comparison does without such a file. Where there is one, a verdict on half of a plan is not read as the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnres_cli.report.arms import Arm
from attnres_cli.runs.files import read_json

SWEEP_FILE = "sweep.json"


@dataclass(frozen=True)
class Plan:
    """waiting: by the label of an arm, the runs that have not begun. added_seeds: later than the first results."""

    waiting: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    added_seeds: frozenset[int] = frozenset()


def read_plan(folders: Iterable[Path], arms: Sequence[Arm]) -> Plan:
    """folders: of the groups that are compared. A file that is missing or says something else plans nothing."""
    waiting: dict[str, tuple[str, ...]] = {}
    added: set[int] = set()
    for folder in dict.fromkeys(folders):
        content = _content(folder)
        added |= set(_added(content))
        for residual, name in _waiting(content):
            for arm in arms:
                if arm.lead.resolved.get("residual") == residual:
                    waiting[arm.label] = (*waiting.get(arm.label, ()), name)
    return Plan(waiting, frozenset(added))


def planned_residuals(folder: Path) -> list[Any]:
    """The [residual] sections of a group's arms, in the order of its sweep file."""
    return [arm.get("residual") for arm in _dictionaries(_content(folder), "arms")]


def is_tune(folder: Path) -> bool:
    """Whether the runs of a group are trials that chose learning rates."""
    return _content(folder).get("kind") == "tune"


def _content(folder: Path) -> Mapping[str, Any]:
    try:
        return read_json(folder / SWEEP_FILE)
    except (OSError, ValueError):
        return {}


def _added(content: Mapping[str, Any]) -> list[int]:
    seeds, planned = content.get("seeds"), content.get("planned_seeds")
    if not isinstance(seeds, list) or not isinstance(planned, int):
        return []
    return [seed for seed in seeds[planned:] if isinstance(seed, int)]


def _waiting(content: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """(residual section, name) of every run that has not begun. Of a grid of several cells one at most is compared, and
    the file does not say which: nothing is waited for then."""
    if len(_dictionaries(content, "cells")) > 1:
        return
    residuals = {arm.get("label"): arm.get("residual") for arm in _dictionaries(content, "arms")}
    for run in _dictionaries(content, "runs"):
        if run.get("status") == "planned" and run.get("arm") in residuals and not run.get("trial"):
            yield residuals[run["arm"]], f"{run['arm']} seed {run.get('seed')}"


def _dictionaries(content: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = content.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
