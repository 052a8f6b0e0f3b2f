"""Which checkpoint of a run is meant; its files are train/checkpoint.py's affair."""

from __future__ import annotations

from pathlib import Path

from attnres_cli.errors import UserError
from attnres_cli.runs.directory import RunDirectory


def find_checkpoint(run: RunDirectory, step: int | None = None) -> tuple[int, Path]:
    """(step, folder) of the run's last complete checkpoint, or of the one at `step`. Raises UserError when there is
    none."""
    folders = {int(folder.name.rpartition("-")[2]): folder for folder in run.checkpoints()}
    if not folders:
        raise UserError(
            f"Run '{run.name}' has no weights: it has no checkpoint.",
            where=str(run.checkpoints_folder),
            expected="a run that has ended, or has come to train.checkpoint_every_steps",
            hint="attnres runs ls",
        )
    if step is None:
        return max(folders), folders[max(folders)]
    if step not in folders:
        raise UserError(
            f"Run '{run.name}' has no checkpoint of step {step}.",
            where="--checkpoint",
            expected=" or ".join(map(str, folders)),
        )
    return step, folders[step]
