"""Ctrl-C when a training has logged a chosen step, sent by that training itself: no clock and no load decides when."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.runs.directory import RunDirectory
from attnres_cli.sweep.execution import Job, JobResult
from attnres_cli.sweep.job import train_job

# The step at which a training in a process of its own interrupts the sweep, and the folder of that training.
STEP = 2
FOLDER = "cut/attnres-full-s1"


def interrupt_this_process(monkeypatch: pytest.MonkeyPatch, folder: Path, step: int) -> None:
    """The training in `folder`, in this process, gets SIGINT when it has logged `step`."""
    monkeypatch.setattr(RunDirectory, "append_metric", _then(_interrupt, folder, step))


def train_job_that_interrupts_the_sweep(job: Job) -> JobResult:
    """Runs in a process of the pool: the training in `FOLDER` sends SIGINT to the sweep, and goes on when the sweep has
    passed it on."""
    folder = Path(job.run_folder)
    if folder.parts[-2:] == Path(FOLDER).parts:  # one of them only: the others may be faster
        RunDirectory.append_metric = _then(_interrupt_the_sweep, folder, STEP)  # type: ignore[method-assign]
    return train_job(job)


def _then(act: Callable[[], None], folder: Path, step: int) -> Callable[[RunDirectory, Mapping[str, Any]], None]:
    """`RunDirectory.append_metric`, and afterwards, once, `act`."""
    original = RunDirectory.append_metric

    def append(run: RunDirectory, row: Mapping[str, Any]) -> None:
        original(run, row)
        if run.path.resolve() == folder.resolve() and row["kind"] == "train" and row["step"] == step:
            act()

    return append


def _interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _interrupt_the_sweep() -> None:
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told)
    os.kill(os.getppid(), signal.SIGINT)
    os.read(heard, 1)
