"""Where the runs of a comparison come from: a study that planned them, a tune whose trials they were, an overlay that a
tune left. Runs that chose a learning rate carry no verdict; runs beyond a plan carry an exploratory one, and so do some
runs of a plan without the others.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from attnres_cli import discovery
from attnres_cli.report.arms import Arm
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.group_plan import is_tune
from attnres_cli.report.left_out import GroupPlan, arms_without, read_group_plans
from attnres_cli.report.phrases import listed
from attnres_cli.report.study import StudyMark, label, study_of_group, why_exploratory

TRIALS = "these runs chose learning rates; no verdict rests on them"
TUNED_OVERLAY = "tuned-"
RATE = "train.learning_rate"


@dataclass(frozen=True)
class Origins:
    """studies: by the folder of their runs. tunes: folders of trials. plans: by the folder, what a sweep file there
    planned."""

    studies: Mapping[Path, StudyMark] = field(default_factory=dict)
    tunes: frozenset[Path] = frozenset()
    plans: Mapping[Path, GroupPlan] = field(default_factory=dict)

    @property
    def marks(self) -> list[StudyMark]:
        """Every study once."""
        return list({mark.hash: mark for mark in self.studies.values()}.values())

    @property
    def titles(self) -> str | None:
        """Of all studies; None where there is none."""
        return listed([mark.title for mark in self.marks]) or None

    def without_verdict(self, runs: Sequence[ComparedRun]) -> tuple[str, ...]:
        """Why no verdict may rest on these runs; empty where none of them chose a learning rate or repeats one that
        did."""
        if any(run.path.parent in self.tunes for run in runs):
            return (TRIALS,)
        spent = sorted({run.seed for run in runs if run.seed is not None and run.seed in _tuning_seeds(run)})
        if not spent:
            return ()
        seeds = f"seed{'s' * (len(spent) > 1)} {listed([str(seed) for seed in spent])}"
        return (f"{seeds} chose the learning rate of these runs; no verdict rests on that",)

    def beyond_plan(self, runs: Sequence[ComparedRun]) -> tuple[str, ...]:
        """Which of the runs that are compared with each other their studies did not plan, and why; empty without a
        study."""
        found: dict[str, list[str]] = {}
        for mark in {study.hash: study for run in runs if (study := self.studies.get(run.path.parent))}.values():
            for run in runs:
                if label(mark, str(run.manifest.get("preset_digest"))) == "exploratory":
                    reason = f"beyond {mark.title}: {why_exploratory(mark, run.resolved)}"
                    found.setdefault(reason, []).append(run.label)
        return tuple(f"{listed(names)}: {reason}" for reason, names in found.items())

    def left_out(self, runs: Sequence[ComparedRun], arms: Sequence[Arm]) -> tuple[str, ...]:
        """What of the plans of these runs was not given: a reason each. arms: all that are compared."""
        folders = dict.fromkeys(run.path.parent for run in runs)
        found = [self.plans[folder].why_exploratory(runs, arms) for folder in folders if folder in self.plans]
        return tuple(dict.fromkeys(reason for reasons in found for reason in reasons))

    def arms_without(self, arms: Sequence[Arm]) -> dict[str, str]:
        """Planned arms that are not among these: name → "left out" or "waited for"."""
        return arms_without(self.plans, [run for arm in arms for run in arm.runs], arms)

    def lacks_seeds(self, arm: Arm) -> bool:
        """Whether planned runs of an arm were not given."""
        return any(plan.lacks_seeds(arm) for plan in self.plans.values())

    def tuning_runs(self, arm: Arm) -> int | None:
        """How many runs chose the arm's learning rate: 0 where its study says that none did, None where that is not
        known."""
        counts = {self._tuning_runs(run) for run in arm.counted}
        return counts.pop() if len(counts) == 1 else None

    def _tuning_runs(self, run: ComparedRun) -> int | None:
        study = self.studies.get(run.path.parent)
        if study is None:
            return None
        return study.tuning_runs.get(study.arm_of.get(str(run.manifest.get("preset_digest")), ""))


def read_origins(runs: Iterable[ComparedRun]) -> Origins:
    """Of the folders that the runs lie in."""
    runs = list(runs)
    folders = list(dict.fromkeys(run.path.parent for run in runs))
    studies = {folder: mark for folder in folders if (mark := study_of_group(folder)) is not None}
    return Origins(studies, frozenset(folder for folder in folders if is_tune(folder)), read_group_plans(runs))


def _tuning_seeds(run: ComparedRun) -> Sequence[Any]:
    found = run.facts["train.tuning_seeds"]
    return found if isinstance(found, list) else ()


def tuned_overlay(arm: Arm) -> str | None:
    """The overlay that a tune left for this arm, where its runs' command lines name it and say no other rate."""
    found = {_tuned_overlay(run) for run in arm.counted}
    return found.pop() if len(found) == 1 else None


def _tuned_overlay(run: ComparedRun) -> str | None:
    """tuned-<preset>-<arm>, as tunes call their overlays; another arm's rate is not this arm's own. An arm that is no
    scheme is an overlay, and the run is that arm unless its command line says another residual configuration."""
    try:
        words = shlex.split(str(run.manifest.get("command", "")))
    except ValueError:
        return None
    if any(word.removeprefix("--set=").startswith(RATE) for word in words):
        return None
    values = [word.removeprefix("--overlay=") for word in words if word.startswith("--overlay=")]
    values += [value for option, value in zip(words, words[1:], strict=False) if option == "--overlay"]
    names = [PurePath(value).name.removesuffix(".toml") for value in values]
    says_another = any(word.removeprefix("--set=").startswith(("--residual", "residual.")) for word in words)
    tuned = [name for name in names if name.startswith(TUNED_OVERLAY)]
    schemes = tuple(f"-{scheme}" for scheme in discovery.names("residual.schemes"))
    return next(
        (
            name
            for name in tuned
            if name.endswith(f"-{run.scheme}") or (not says_another and not name.endswith(schemes))
        ),
        None,
    )
