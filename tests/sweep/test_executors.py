"""Every discovered executor keeps the contract of sweep/execution.py, whatever its jobs do."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from attnres_cli import discovery
from attnres_cli.sweep.execution import Execute, Job, JobResult, Slot, Stop, stopping_on_signals, usable_cores
from attnres_cli.train.stopping import HANG_UP

EXECUTORS = discovery.names("sweep.executors")
# An executor that gives each job its own process; the serial one shares this one, which a test must not end.
ISOLATED = ("pool",)


def executor(name: str) -> Execute:
    execute: Execute = discovery.load("sweep.executors", name, what="executor").execute
    return execute


def slots(name: str, **environment: str) -> list[Slot]:
    return [Slot(threads=1, environment=environment)] * (2 if name in ISOLATED else 1)


def job(key: str, folder: Path, **preset: object) -> Job:
    return Job(key, "tiny", preset, "", str(folder / key))


class Diary:
    def __init__(self) -> None:
        self.started_keys: list[str] = []
        self.results: dict[str, JobResult] = {}

    def started(self, job: Job) -> None:
        self.started_keys.append(job.key)

    def ended(self, job: Job, result: JobResult) -> None:
        self.results[job.key] = result


# ---------------------------------------------------------------- jobs, importable by name in a child process


def finish(job: Job) -> JobResult:
    Path(job.run_folder).write_text(f"{os.getpid()} {os.environ.get('ATTNRES_TEST_SLOT')} {job.threads}")
    return JobResult("finished")


def misbehave(job: Job) -> JobResult:
    if job.preset.get("raises"):
        raise ValueError("the third dimension is missing")
    if job.preset.get("dies"):
        os.kill(os.getpid(), signal.SIGKILL)
    if job.preset.get("exits"):
        os._exit(7)
    return finish(job)


def wait_for_the_signal(job: Job) -> JobResult:
    """Like the training loop: SIGTERM sets a flag, the next safe point ends the run."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda signum, frame: stopped.append(signum))
    begun = Path(job.run_folder).with_suffix(".begun")
    begun.write_text("running")
    begun.replace(job.run_folder)  # whole, or not there: whoever waits for the file may kill this process at once
    for _ in range(600):
        if stopped:
            Path(job.run_folder).write_text("checkpoint")
            return JobResult("interrupted", "stopped at a safe point")
        time.sleep(0.05)
    return JobResult("finished")


# ---------------------------------------------------------------- tests


@pytest.mark.parametrize("name", EXECUTORS)
def test_runs_every_job_and_reports_each_once(name: str, tmp_path: Path) -> None:
    diary = Diary()
    jobs = [job(f"job-{number}", tmp_path) for number in range(3)]
    executor(name)(jobs, finish, slots=slots(name), watch=diary, stop=Stop())
    assert diary.started_keys == [each.key for each in jobs]
    assert diary.results == {each.key: JobResult("finished") for each in jobs}
    assert all(Path(each.run_folder).is_file() for each in jobs)


@pytest.mark.parametrize("name", EXECUTORS)
def test_a_job_that_raises_is_a_row_and_the_next_one_runs(name: str, tmp_path: Path) -> None:
    diary = Diary()
    executor(name)(
        [job("bad", tmp_path, raises=True), job("good", tmp_path)],
        misbehave,
        slots=slots(name),
        watch=diary,
        stop=Stop(),
    )
    assert diary.results["bad"] == JobResult("failed", "ValueError: the third dimension is missing")
    assert diary.results["good"] == JobResult("finished")


@pytest.mark.parametrize("name", EXECUTORS)
def test_nothing_starts_after_a_request_to_stop(name: str, tmp_path: Path) -> None:
    diary, stop = Diary(), Stop()
    stop.request()
    executor(name)([job("late", tmp_path)], finish, slots=slots(name), watch=diary, stop=stop)
    assert diary.started_keys == []


def test_pool_survives_the_death_of_a_child(tmp_path: Path) -> None:
    diary = Diary()
    jobs = [job("killed", tmp_path, dies=True), job("gone", tmp_path, exits=True), job("good", tmp_path)]
    executor("pool")(jobs, misbehave, slots=slots("pool"), watch=diary, stop=Stop())
    assert diary.results["killed"].status == "failed"
    assert "SIGKILL" in str(diary.results["killed"].error)
    assert diary.results["gone"] == JobResult("failed", "its process ended with exit code 7 and no result")
    assert diary.results["good"] == JobResult("finished")


def test_pool_gives_each_slot_its_environment_and_threads(tmp_path: Path) -> None:
    places = [Slot(threads=3, environment={"ATTNRES_TEST_SLOT": "first"})]
    executor("pool")([job("only", tmp_path)], finish, slots=places, watch=Diary(), stop=Stop())
    pid, slot, threads = (tmp_path / "only").read_text().split()
    assert (slot, threads) == ("first", "3")
    assert int(pid) != os.getpid()
    assert "ATTNRES_TEST_SLOT" not in os.environ


def test_pool_passes_a_request_on_and_waits_for_the_safe_point(tmp_path: Path) -> None:
    class StopsTheFirst(Diary):
        def started(self, job: Job) -> None:
            super().started(job)
            while not (tmp_path / "running").exists():  # only then is its handler in place
                time.sleep(0.01)
            stop.request()

    diary, stop = StopsTheFirst(), Stop()
    executor("pool")(
        [job("running", tmp_path), job("waiting", tmp_path)],
        wait_for_the_signal,
        slots=[Slot(threads=1)],
        watch=diary,
        stop=stop,
    )
    assert diary.results == {"running": JobResult("interrupted", "stopped at a safe point")}
    assert (tmp_path / "running").read_text() == "checkpoint"


def test_a_second_request_kills(tmp_path: Path) -> None:
    class Impatient(Diary):
        def started(self, job: Job) -> None:
            super().started(job)
            while not (tmp_path / "running").exists():
                time.sleep(0.01)
            stop.request()
            stop.request()

    diary, stop = Impatient(), Stop()
    executor("pool")([job("running", tmp_path)], wait_for_the_signal, slots=[Slot(threads=1)], watch=diary, stop=stop)
    assert diary.results["running"].status in ("interrupted", "failed")
    assert (tmp_path / "running").read_text() == "running"


def test_signals_become_requests_and_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    stop = Stop()
    with stopping_on_signals(stop):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    assert stop.at_once
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.skipif(HANG_UP is None, reason="needs SIGHUP")
def test_a_closed_terminal_asks_for_the_next_safe_point_however_often_it_says_so() -> None:
    assert HANG_UP is not None
    stop = Stop()
    with stopping_on_signals(stop):
        assert not stop.requested
        os.kill(os.getpid(), HANG_UP)
        os.kill(os.getpid(), HANG_UP)
        assert stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert not stop.at_once
    before = signal.signal(HANG_UP, signal.SIG_IGN)
    try:
        with stopping_on_signals(stop := Stop()):
            os.kill(os.getpid(), HANG_UP)
        assert not stop.requested
    finally:
        signal.signal(HANG_UP, before)


def test_usable_cores_is_positive() -> None:
    assert usable_cores() >= 1


def test_pool_keeps_a_process_that_finished_its_job_and_replaces_any_other(tmp_path: Path) -> None:
    jobs = [job("one", tmp_path), job("two", tmp_path), job("bad", tmp_path, raises=True), job("three", tmp_path)]
    executor("pool")(jobs, misbehave, slots=[Slot(threads=1)], watch=Diary(), stop=Stop())
    processes = {name: (tmp_path / name).read_text().split()[0] for name in ("one", "two", "three")}
    assert processes["one"] == processes["two"] != processes["three"]
