"""What the sweep file of a group says of runs that are not there: planned ones that have not ended, and seeds that were
added when results were there.

A comparison does without such a file. Where there is one, a verdict on half of a plan is not read as the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.sweep_results import ENDED
from attnres_cli.runs.files import json_or_nothing
from attnres_cli.runs.lookup import SWEEP_FILE
from attnres_cli.runs.shapes import SWEEP, misfit
from attnres_cli.runs.state import STALE

CAN_GO_ON = ("interrupted", STALE)


@dataclass(frozen=True)
class PlannedRun:
    """A run as the sweep file of its group has it. arm: the label there. path: of its folder, None before it has
    one."""

    arm: str
    residual: Any
    seed: Any
    cell: Any
    status: Any
    digest: Any
    path: Path | None

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    def became(self, run: ComparedRun) -> bool:
        """Whether this is what was planned of a run in the same group; an earlier attempt at it counts."""
        return run.path == self.path or (bool(self.digest) and run.manifest.get("preset_digest") == self.digest)


@dataclass(frozen=True)
class Plan:
    """waiting: by the label of an arm, a clause for every run that has not ended. added_seeds: later than the first
    results."""

    waiting: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    added_seeds: frozenset[int] = frozenset()


def read_plan(folders: Iterable[Path], arms: Sequence[Arm]) -> Plan:
    """folders: of the groups that are compared. A file that is missing or says something else plans nothing."""
    waiting: dict[str, tuple[str, ...]] = {}
    added: set[int] = set()
    compared = [run for arm in arms for run in arm.runs]
    for folder in dict.fromkeys(folders):
        added |= set(_added(sweep_content(folder)))
        for planned in in_compared_cells(planned_runs(folder), compared):
            for arm in arms:
                if arm.lead.resolved.get("residual") == planned.residual and (clause := _waits(planned, arm)):
                    waiting[arm.label] = (*waiting.get(arm.label, ()), clause)
    return Plan(waiting, frozenset(added))


def planned_runs(folder: Path) -> list[PlannedRun]:
    """Every run that the sweep file of a group has, but for trials: those chose a rate for the others."""
    content = sweep_content(folder)
    residuals = {arm.get("label"): arm.get("residual") for arm in _dictionaries(content, "arms")}
    return [
        PlannedRun(
            str(run["arm"]), residuals[run["arm"]], run.get("seed"), run.get("cell"), run.get("status"),
            run.get("digest"), folder / run["folder"] if isinstance(run.get("folder"), str) else None,
        )
        for run in _dictionaries(content, "runs")
        if run.get("arm") in residuals and not run.get("trial")
    ]  # fmt: skip


def in_compared_cells(planned: Sequence[PlannedRun], runs: Sequence[ComparedRun]) -> list[PlannedRun]:
    """Those of the cells that some runs lie in: of a grid one cell is compared, and the others are no part of it. None
    of a grid of which no run is known."""
    cells = {each.cell for each in planned for run in runs if each.became(run)}
    if not cells and len({each.cell for each in planned}) == 1:
        return list(planned)
    return [each for each in planned if each.cell in cells]


def planned_residuals(folder: Path) -> list[Any]:
    """The [residual] sections of a group's arms, in the order of its sweep file."""
    return [arm.get("residual") for arm in _dictionaries(sweep_content(folder), "arms")]


def is_tune(folder: Path) -> bool:
    """Whether the runs of a group are trials that chose learning rates."""
    return sweep_content(folder).get("kind") == "tune"


def planned_seeds(content: Mapping[str, Any]) -> list[int]:
    """The seeds of a sweep file that were there before the first result."""
    seeds, planned = content.get("seeds"), content.get("planned_seeds")
    if not isinstance(seeds, list) or not isinstance(planned, int):
        return []
    return [seed for seed in seeds[:planned] if isinstance(seed, int)]


def sweep_content(folder: Path) -> Mapping[str, Any]:
    """The sweep file of a group; empty where there is none that can be read, or it holds something else."""
    found = json_or_nothing(folder / SWEEP_FILE)
    return {} if misfit(found, SWEEP) else found


def _added(content: Mapping[str, Any]) -> list[int]:
    seeds, planned = content.get("seeds"), content.get("planned_seeds")
    if not isinstance(seeds, list) or not isinstance(planned, int):
        return []
    return [seed for seed in seeds[planned:] if isinstance(seed, int)]


def _waits(planned: PlannedRun, arm: Arm) -> str | None:
    """What is said of a run that the file waits for; None where it has ended, or is there and does not wait. The run's
    own word counts before that of the file, which knows what its sweep knew when it stopped."""
    if planned.has_ended:
        return None
    own = next((run for run in arm.runs if planned.became(run) or run.seed == planned.seed), None)
    if own is not None:
        return f"{own.label} can go on ({own.where_it_stands()})" if own.status in CAN_GO_ON else None
    stands = "is planned and has not begun" if planned.status == "planned" else f"is {planned.status}"
    return f"{planned.arm} seed {planned.seed} {stands}"


def _dictionaries(content: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = content.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
