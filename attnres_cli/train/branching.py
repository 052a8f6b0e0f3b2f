"""Starting a run in the middle of another one that did the same up to there.

Under WSD the learning rate is constant until the decay, so runs of different horizons are one and the same run until
the shorter one begins to decay. The longer one can leave there: it takes over the checkpoint (weights, optimiser,
generator, data position) and everything measured so far, and is from then on the run it would have been from step 0,
bit for bit on the same machine with the same threads. The part they share is computed once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnres_cli.errors import UserError, plural
from attnres_cli.preset.reading import Preset, preset_from_dict
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.files import Row, json_text, write_whole
from attnres_cli.runs.metrics import kept_after_resume
from attnres_cli.train.checkpoint import read_state
from attnres_cli.train.schedule import learning_rate_factor

# What may differ: the course of the learning rate, which is compared step by step, and when checkpoints are written.
FREE = frozenset(
    f"train.{key}"
    for key in (
        "horizon_tokens",
        "schedule",
        "warmup_fraction",
        "decay_fraction",
        "min_lr_ratio",
        "checkpoint_every_steps",
    )
)


@dataclass(frozen=True)
class Branch:
    """The place where a run leaves `trunk`: after `step` finished steps, of which the trunk kept a checkpoint."""

    trunk: RunDirectory
    step: int

    @property
    def checkpoint(self) -> Path:
        return self.trunk.checkpoint_folder(self.step)

    @property
    def is_there(self) -> bool:
        """Whether the trunk has come so far and still has the checkpoint."""
        return self.checkpoint in self.trunk.checkpoints()

    def refuse_another_course(self, preset: Preset) -> None:
        """Raise UserError unless the trunk did, up to the branch, exactly what `preset` does."""
        if not self.is_there:
            raise UserError(
                f"Run '{self.trunk.name}' has no checkpoint of step {self.step}.",
                where=str(self.trunk.checkpoints_folder),
                expected=", ".join(path.name for path in self.trunk.checkpoints()) or "a run that is still to train",
            )
        theirs = preset_from_dict(self.trunk.resolved(), self.trunk.name)
        differing = _differing(theirs, preset) or _differing_course(theirs, preset, self.step)
        if differing:
            raise UserError(
                f"Run '{self.trunk.name}' is not the first {self.step} steps of this one: {differing}.",
                where=str(self.trunk.resolved_toml),
                expected="a run that differs only in what comes after the branch",
            )

    def facts(self, run: RunDirectory) -> dict[str, Any]:
        """What the manifest of `run` says about where it comes from."""
        return {
            "run": os.path.relpath(self.trunk.path.resolve(), run.path.resolve().parent),
            "step": self.step,
            "digests": read_state(self.checkpoint)["digests"],
        }

    def hand_over(self, run: RunDirectory) -> None:
        """Give `run` what the trunk measured up to the branch, and last, because it makes the run resumable, the
        checkpoint."""
        rows = [row for row in self._until(self.trunk.metrics()) if row.get("kind") != "event"]
        write_whole(run.metrics_path, _lines(rows))
        observations = self._until(self.trunk.observations())
        run.probes_folder.mkdir(exist_ok=True)
        for name in sorted(_probe_files(observations)):
            shutil.copy2(self.trunk.probes_folder / name, run.probes_folder / name)
        if observations:
            write_whole(run.observations_path, _lines(observations))
        target = run.checkpoint_folder(self.step)
        partial = target.with_name(f".{target.name}.partial")
        shutil.copytree(self.checkpoint, partial, copy_function=_link_or_copy)
        partial.rename(target)

    def _until(self, rows: list[Row]) -> list[Row]:
        return kept_after_resume(rows, self.step)


def _differing(theirs: Preset, ours: Preset) -> str:
    """The first key that both have to agree in and do not, as a phrase; "" where there is none."""
    then, now = (_by_key(preset.to_dict()) for preset in (theirs, ours))
    key = next((key for key in {**then, **now} if key not in FREE and then.get(key) != now.get(key)), None)
    return "" if key is None else f"{key} was {then.get(key)!r} and is {now.get(key)!r}"


def _differing_course(theirs: Preset, ours: Preset, step: int) -> str:
    """Likewise for the learning rate of the first `step` steps and for what happens because a run ends."""
    if step >= min(theirs.steps, ours.steps):
        steps = f"it has {theirs.steps} {plural(theirs.steps, 'step')} and this one {ours.steps}"
        return f"{steps}, and the last one is logged and measured"
    for each in range(step):
        then, now = learning_rate_factor(theirs, each), learning_rate_factor(ours, each)
        if then != now:
            return f"step {each + 1} had {then:.6g} × the peak learning rate and has {now:.6g} ×"
    return ""


def _by_key(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    flat = {f"{section}.{key}": value for section, keys in values.items() for key, value in keys.items()}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in flat.items()}


def _lines(rows: list[Row]) -> str:
    return "".join(json_text(row) + "\n" for row in rows)


def _probe_files(observations: list[Row]) -> set[str]:
    return {array["file"] for row in observations for array in row["arrays"].values()}


def _link_or_copy(source: str, target: str) -> None:
    """Checkpoints are never changed in place, so both runs may share the bytes where the file system can."""
    with suppress(OSError):
        os.link(source, target)
        return
    shutil.copy2(source, target)
