"""Which runs of a plan a comparison was not given.

A plan says how many seeds and arms there will be. Whoever names some of them afterwards may have chosen those that
suit: the verdict is exploratory then, and p is corrected over all arms of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.group_plan import PlannedRun, planned_runs, planned_seeds, sweep_content
from attnres_cli.report.phrases import listed
from attnres_cli.report.study import study_of

WAITED_FOR = "waited for"
LEFT_OUT = "left out"


@dataclass(frozen=True)
class GroupPlan:
    """What the sweep file of one group planned before its first result, and what of it was given. title: "group first",
    or the study with the beginning of its hash. given: which of `runs` they are, by the folder of every run that was
    given; an earlier attempt at a run is that run, too."""

    title: str
    runs: tuple[PlannedRun, ...]
    given: Mapping[Path, frozenset[int]]

    def why_exploratory(self, runs: Sequence[ComparedRun], arms: Sequence[Arm]) -> list[str]:
        """How many planned seeds and arms a verdict on these runs goes without, by name. arms: all that are
        compared."""
        pair = {each.arm for each in self._planned_of(runs)}
        planned = [each for each, _ in self._beside(runs)]
        seeds = dict.fromkeys(each.seed for each in planned if each.arm in pair)
        without = {each.seed for each, given in self._beside(runs) if each.arm in pair and _is_missing(each, given)}
        lost = [str(seed) for seed in seeds if seed in without]
        found = [self._said(lost, len(seeds), "seed")] if lost else []
        chosen = [name for name, why in self.arms_without(runs, arms).items() if why == LEFT_OUT]
        return [*found, self._said(chosen, len({each.arm for each in planned}), "arm")] if chosen else found

    def arms_without(self, runs: Sequence[ComparedRun], arms: Sequence[Arm]) -> dict[str, str]:
        """Planned arms that are not compared: name → "left out" where some run of it is there, else "waited for"."""
        compared = [arm.lead.resolved.get("residual") for arm in arms]
        found: dict[str, str] = {}
        for each, given in self._beside(runs):
            if each.residual not in compared and _is_missing(each, given) and found.get(each.arm) != LEFT_OUT:
                found[each.arm] = LEFT_OUT if each.has_ended else WAITED_FOR
        return found

    def lacks_seeds(self, arm: Arm) -> bool:
        """Whether planned runs of an arm that is compared were not given."""
        residual = arm.lead.resolved.get("residual")
        return any(each.residual == residual and _is_missing(each, given) for each, given in self._beside(arm.runs))

    def _beside(self, runs: Sequence[ComparedRun]) -> list[tuple[PlannedRun, bool]]:
        """What was planned in the cells of these runs, with whether it was given; nothing for runs that the file does
        not know."""
        cells = {each.cell for each in self._planned_of(runs)}
        return [(each, place in self._places) for place, each in enumerate(self.runs) if each.cell in cells]

    def _planned_of(self, runs: Sequence[ComparedRun]) -> list[PlannedRun]:
        return [self.runs[place] for run in runs for place in self.given.get(run.path, ())]

    @cached_property
    def _places(self) -> frozenset[int]:
        return frozenset(place for places in self.given.values() for place in places)

    def _said(self, names: Sequence[str], planned: int, what: str) -> str:
        verb = "is" if len(names) == 1 else "are"
        return f"{len(names)} of {planned} planned {what}s of {self.title} {verb} left out ({listed(names)})"


def read_group_plans(runs: Iterable[ComparedRun]) -> dict[Path, GroupPlan]:
    """By the folder of the runs, where a sweep file there planned some of them. runs: all that were given, those that
    were set aside, too."""
    by_folder: dict[Path, list[ComparedRun]] = {}
    for run in runs:
        by_folder.setdefault(run.path.parent, []).append(run)
    plans = {folder: _read(folder, members) for folder, members in by_folder.items()}
    return {folder: plan for folder, plan in plans.items() if any(plan.given.values())}


def arms_without(
    plans: Mapping[Path, GroupPlan], runs: Sequence[ComparedRun], arms: Sequence[Arm]
) -> dict[str, str]:  # fmt: skip
    """Of all plans: name → why the arm is not compared."""
    found: dict[str, str] = {}
    for plan in plans.values():
        for name, why in plan.arms_without(runs, arms).items():
            found[name] = LEFT_OUT if LEFT_OUT in (why, found.get(name)) else why
    return found


def _read(folder: Path, runs: Sequence[ComparedRun]) -> GroupPlan:
    content = sweep_content(folder)
    study = study_of(content)
    seeds = planned_seeds(content) if study is None else study.seeds
    planned = tuple(each for each in planned_runs(folder) if each.seed in seeds)
    by_path = {each.path: place for place, each in enumerate(planned)}
    by_digest = {str(each.digest): place for place, each in enumerate(planned) if each.digest}
    given = {}
    for run in runs:
        places = (by_path.get(run.path), by_digest.get(str(run.manifest.get("preset_digest"))))
        given[run.path] = frozenset(place for place in places if place is not None)
    return GroupPlan(f"group {folder.name}" if study is None else study.title, planned, given)


def _is_missing(planned: PlannedRun, given: bool) -> bool:
    """A run that failed before it had a folder can be given by nobody."""
    never_there = planned.status == "failed" and (planned.path is None or not planned.path.exists())
    return not given and not never_there
