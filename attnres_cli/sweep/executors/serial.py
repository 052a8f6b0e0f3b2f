"""One training after the other, in this process: the simplest executor, and the right one for a single slot."""

from __future__ import annotations

from collections.abc import Sequence

from attnres_cli.sweep.execution import Job, JobResult, RunJob, Slot, Stop, Watch, failure_of


def execute(jobs: Sequence[Job], run_job: RunJob, *, slots: Sequence[Slot], watch: Watch, stop: Stop) -> None:
    """Run `jobs` in order. A job that ends as "interrupted" (the training loop got the signal) stops the rest."""
    assert len(slots) == 1, "the serial executor has one slot"
    for job in jobs:
        if stop.requested:
            return
        watch.started(job)
        result = _run(run_job, job)
        watch.ended(job, result)
        if result.status == "interrupted":
            stop.request()


def _run(run_job: RunJob, job: Job) -> JobResult:
    try:
        return run_job(job)
    except KeyboardInterrupt:
        return JobResult("interrupted", "stopped before the first safe point")
    except Exception as error:
        return failure_of(error)
