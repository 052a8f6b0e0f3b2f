"""Several trainings at once, each in a process of its own: on the cores of this machine, or one per GPU.

A process goes on to the next job after one that finished, because loading torch takes seconds; after anything else it
is replaced. So a training that is killed (out of memory) or crashes is a failed row and nothing else, and CUDA sees
only the GPU of its slot. Processes are spawned, not forked: torch's thread pools and CUDA do not survive a fork. The
children live in their own process groups: a Ctrl-C at the terminal reaches the parent only, which passes it on once, so
that no child takes it for the second, impatient one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from attnres_cli.sweep.execution import Job, JobResult, RunJob, Slot, Stop, Watch, failure_of

# How long a request to stop may go unnoticed.
POLL_SECONDS = 0.25


def execute(jobs: Sequence[Job], run_job: RunJob, *, slots: Sequence[Slot], watch: Watch, stop: Stop) -> None:
    """Run `jobs` in order of their position, as slots get free. `run_job` has to be importable by its name."""
    waiting, free, busy = list(jobs), [_Place(slot, run_job) for slot in slots], list[_Place]()
    places = tuple(free)
    try:
        while busy or (waiting and not stop.requested):
            while waiting and free and not stop.requested:
                place = free.pop(0)
                place.give(waiting.pop(0))
                busy.append(place)
                watch.started(place.job)
            if stop.requested:
                for place in busy:
                    place.ask_to_stop(at_once=stop.at_once)
            wait([source for place in busy for source in place.sources], POLL_SECONDS)
            for place in [place for place in busy if place.has_ended]:
                job, result = place.take()
                busy.remove(place)
                free.append(place)
                watch.ended(job, result)
    finally:
        for place in places:
            place.close()


@dataclass
class _Worker:
    process: SpawnProcess
    connection: Connection


class _Place:
    """A slot, the process that serves it at the moment, and the job that process is busy with."""

    def __init__(self, slot: Slot, run_job: RunJob) -> None:
        self._slot, self._run_job = slot, run_job
        self._worker: _Worker | None = None
        self._job: Job | None = None
        self._asked_to_stop = False

    @property
    def job(self) -> Job:
        assert self._job is not None
        return self._job

    @property
    def sources(self) -> tuple[Connection, int]:
        """What to wait on: a result, or the death of the process."""
        assert self._worker is not None
        return self._worker.connection, self._worker.process.sentinel

    @property
    def has_ended(self) -> bool:
        assert self._worker is not None
        return self._worker.connection.poll() or not self._worker.process.is_alive()

    def give(self, job: Job) -> None:
        """Start `job`, in a new process unless one is at hand."""
        self._job = replace(job, threads=self._slot.threads)
        if self._worker is None or not self._worker.process.is_alive():
            self._worker = _started(self._run_job, self._slot)
        self._worker.connection.send(self._job)

    def ask_to_stop(self, *, at_once: bool) -> None:
        """Pass a request on: the training loop takes SIGTERM for "checkpoint at the next safe point", once."""
        assert self._worker is not None
        if at_once:
            self._worker.process.kill()
        elif not self._asked_to_stop:
            self._worker.process.terminate()
        self._asked_to_stop = True

    def take(self) -> tuple[Job, JobResult]:
        """The job that has ended and how; only a process that finished its job well is kept."""
        assert self._worker is not None
        job, self._job = self.job, None
        try:
            result: JobResult = self._worker.connection.recv()
        except (EOFError, OSError):
            self._worker.process.join()
            result = _death(self._worker.process.exitcode, self._asked_to_stop)
        if result.status != "finished":
            self.close()
        return job, result

    def close(self) -> None:
        """End the process, if there is one, at once: a running job is abandoned, an idle process has no more to do."""
        if self._worker is None:
            return
        self._worker.process.kill()
        self._worker.connection.close()
        self._worker.process.join()
        self._worker.process.close()
        self._worker = None


def _started(run_job: RunJob, slot: Slot) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(run_job, slot.threads, dict(slot.environment), theirs))
    with _interrupts_held_back():
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _death(exit_code: int | None, asked_to_stop: bool) -> JobResult:
    if asked_to_stop:
        return JobResult("interrupted", "stopped before the first safe point")
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        guess = "; the system ran out of memory?" if name == "SIGKILL" else ""
        return JobResult("failed", f"its process was killed by {name}{guess}")
    return JobResult("failed", f"its process ended with exit code {exit_code} and no result")


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Hold SIGINT back, here and (inherited) in a process started meanwhile, until that process can deal with it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---------------------------------------------------------------------- in the child


def _serve(run_job: RunJob, threads: int, environment: Mapping[str, str], connection: Connection) -> None:
    """Run the jobs that come in until the parent closes the connection. Sets the environment before torch is loaded."""
    _leave_the_terminals_group()
    os.environ.update(environment)
    if threads:
        os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)))
    threading.Thread(target=_end_with_the_parent, name="attnres-orphan-watch", daemon=True).start()
    while True:
        try:
            job: Job = connection.recv()
        except EOFError:
            return
        connection.send(_result(run_job, job))


def _result(run_job: RunJob, job: Job) -> JobResult:
    try:
        return run_job(job)
    except KeyboardInterrupt:
        return JobResult("interrupted", "stopped before the first safe point")
    except Exception as error:
        return failure_of(error)


def _leave_the_terminals_group() -> None:
    if hasattr(os, "setpgrp"):
        os.setpgrp()
    if hasattr(signal, "pthread_sigmask"):
        # Ignoring a signal drops what came while it was held back: the parent passes on what is meant for this process.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _end_with_the_parent() -> None:
    """A parent that was killed cannot stop its children: stop at the next safe point when it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
