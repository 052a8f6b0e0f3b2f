"""In which order the engine hands out runs: the dearest first, and none before the one that it starts from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from attnres_cli.sweep.engine import run_sweep
from attnres_cli.sweep.execution import Job, JobResult, RunJob, Slot, Stop, Watch
from attnres_cli.sweep.results import Sweep, SweepDirectory, create_sweep_directory
from tests.sweep.stand_ins import Quiet, Trainer, planned, request, statuses


class Recorder:
    """An executor that notes the order of the jobs and runs them."""

    def __init__(self) -> None:
        self.waves: list[list[str]] = []

    def __call__(
        self, jobs: Sequence[Job], run_job: RunJob, *, slots: Sequence[Slot], watch: Watch, stop: Stop
    ) -> None:
        self.waves.append([Path(job.run_folder).name for job in jobs])
        for job in jobs:
            watch.started(job)
            watch.ended(job, run_job(job))


def run_recorded(root: Path, sweep: Sweep, trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr("attnres_cli.sweep.engine._executor", lambda name: recorder)
    directory = SweepDirectory(root / "s")
    create_sweep_directory(directory)
    run_sweep(directory, sweep, slots=[Slot(), Slot()], listener=Quiet(), run_job=trainer)
    return recorder


def test_side_by_side_the_dearest_runs_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = planned(request())
    for run, cost in zip(sweep.runs, (1.0, 4.0, 3.0, 2.0), strict=True):
        run.cost = cost
    recorder = run_recorded(tmp_path, sweep, Trainer(), monkeypatch)
    assert recorder.waves == [["r6-attnres-full-s0", "r12-prenorm-s0", "r12-attnres-full-s0", "r6-prenorm-s0"]]


def waiting_sweep() -> Sweep:
    """Every run of r12 starts from that of r6."""
    sweep = planned(request())
    by_arm = {run.arm: run.digest for run in sweep.runs if run.cell == "r6"}
    for run in sweep.runs:
        if run.cell == "r12":
            run.after, run.after_step = by_arm[run.arm], 5
    return sweep


def test_a_run_waits_for_the_one_it_starts_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[Job] = []

    class Noting(Trainer):
        def __call__(self, job: Job) -> JobResult:
            jobs.append(job)
            return super().__call__(job)

    recorder = run_recorded(tmp_path, waiting_sweep(), Noting(), monkeypatch)
    assert [set(wave) for wave in recorder.waves] == [
        {"r6-prenorm-s0", "r6-attnres-full-s0"},
        {"r12-prenorm-s0", "r12-attnres-full-s0"},
    ]
    later = next(job for job in jobs if job.run_folder.endswith("r12-prenorm-s0"))
    assert (Path(str(later.after_folder)).name, later.after_step) == ("r6-prenorm-s0", 5)


def test_a_run_whose_start_failed_is_a_row_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = waiting_sweep()
    run_recorded(tmp_path, sweep, Trainer(r6_prenorm_s0=["diverged"]), monkeypatch)
    assert statuses(sweep) == {
        "r6-prenorm-s0": "diverged",
        "r6-attnres-full-s0": "finished",
        "r12-prenorm-s0": "failed",
        "r12-attnres-full-s0": "finished",
    }
    assert sweep.runs[2].error == "it starts from r6-prenorm-s0, which diverged"
    assert sweep.status == "finished"
