"""The contract between the sweep engine and whatever runs its trainings.

An executor is one file of `sweep/executors/` with a function

    execute(jobs, run_job, *, slots, watch, stop) -> None

that runs every job, at most one per slot at a time, and returns when all have ended or when `stop` was asked for and
the running ones have reached a safe point. A job that fails is reported and the next one runs; nothing is raised for
it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal, Protocol

from attnres_cli.errors import storage_trouble
from attnres_cli.train.stopping import HANG_UP, stop_signals

JobStatus = Literal["finished", "interrupted", "diverged", "failed"]


@dataclass(frozen=True)
class Job:
    """One training. It crosses process boundaries, so it holds plain values only.

    key: digest of the resolved preset; preset: the preset as nested dictionaries; source_text: the preset's file as the
    user wrote it; run_folder: where the run goes (made by the job, or there already when `resume`); after_folder: the
    run directory of the run that had to finish before this one, if there is one, and after_step: the step of it from
    which this one goes on; threads: CPU threads, 0 for as many as torch chooses.
    """

    key: str
    preset_name: str
    preset: Mapping[str, Any]
    source_text: str
    run_folder: str
    resume: bool = False
    after_folder: str | None = None
    after_step: int | None = None
    threads: int = 0


@dataclass(frozen=True)
class JobResult:
    """How a job ended. error: one sentence for anything but "finished". The numbers are in the run directory."""

    status: JobStatus
    error: str | None = None


@dataclass(frozen=True)
class Slot:
    """A place where one job at a time may run: its share of the cores, and the variables that pin it to a GPU."""

    threads: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)


RunJob = Callable[[Job], JobResult]


def failure_of(error: Exception) -> JobResult:
    """A cell that raised instead of saying how it ended: a row, whatever went wrong."""
    trouble = storage_trouble(error)
    return JobResult("failed", f"{trouble[0]}." if trouble else f"{type(error).__name__}: {error}")


class Watch(Protocol):
    """Who wants to know. Called in the process of the engine, never in two threads at once."""

    def started(self, job: Job) -> None: ...

    def ended(self, job: Job, result: JobResult) -> None: ...


class Execute(Protocol):
    """The function that a file of `sweep/executors/` defines."""

    def __call__(
        self, jobs: Sequence[Job], run_job: RunJob, *, slots: Sequence[Slot], watch: Watch, stop: Stop
    ) -> None: ...


class Stop:
    """Whether somebody asked the sweep to stop: once for the next safe point, twice for at once.

    A terminal that is closed asks too, and however often it says so, for the next safe point only.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.hung_up = False

    @property
    def requested(self) -> bool:
        return self.requests > 0 or self.hung_up

    @property
    def at_once(self) -> bool:
        return self.requests > 1

    def request(self, signum: int = signal.SIGINT, frame: FrameType | None = None) -> None:
        """Count one request; has the form of a signal handler."""
        if signum == HANG_UP:
            self.hung_up = True
        else:
            self.requests += 1


@contextmanager
def stopping_on_signals(stop: Stop) -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into requests to `stop` while the body runs.

    Only the main thread of a process may install handlers; elsewhere (tests, notebooks) signals stay as they are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signum: signal.signal(signum, stop.request) for signum in stop_signals()}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def usable_cores() -> int:
    """Cores that this process may use (a container or taskset may allow fewer than the machine has)."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1
