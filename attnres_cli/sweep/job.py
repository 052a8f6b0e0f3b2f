"""One training of a sweep, in whichever process it runs. Imports torch only when it is called."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attnres_cli.errors import ExitCode, UserError
from attnres_cli.sweep.execution import Job, JobResult

if TYPE_CHECKING:
    from attnres_cli.train.branching import Branch


def train_job(job: Job) -> JobResult:
    """Train the job's preset in its run folder, from its last checkpoint when it resumes.

    The numbers are in the run directory; the result says only how it ended. A failure is a result, not an exception.
    """
    from attnres_cli.preset.reading import preset_from_dict
    from attnres_cli.runs.directory import RunDirectory
    from attnres_cli.train.beginning import start_of
    from attnres_cli.train.loop import train

    _limit_threads(job.threads)
    folder = Path(job.run_folder)
    try:
        preset = replace(preset_from_dict(job.preset, job.preset_name), source_text=job.source_text)
        if job.resume:
            run = RunDirectory(folder)
        else:
            run = RunDirectory.create(folder.parent, "", folder.name, start=start_of(preset))
        result = train(preset, run, resume=job.resume, branch=None if job.resume else _branch(job))
    except UserError as error:
        return JobResult("diverged" if error.exit_code == ExitCode.DIVERGED else "failed", str(error))
    if result.status == "finished":
        return JobResult("finished")
    return JobResult("interrupted", f"stopped after step {result.step}; resuming goes on from there")


def _branch(job: Job) -> Branch | None:
    """Where the run leaves the one before it; None for a run that begins at step 0, which gives the same numbers: it is
    nobody's branch, or the checkpoint is gone."""
    from attnres_cli.runs.directory import RunDirectory
    from attnres_cli.train.branching import Branch

    if job.after_folder is None or job.after_step is None:
        return None
    branch = Branch(RunDirectory(job.after_folder), job.after_step)
    return branch if branch.is_there else None


def _limit_threads(threads: int) -> None:
    """This job's share of the cores; a preset that fixes its own threads overrides it."""
    if threads:
        import torch

        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
        torch.set_num_threads(threads)
