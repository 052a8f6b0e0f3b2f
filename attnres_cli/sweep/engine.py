"""Runs a planned sweep: what is left to do, where it runs, and the sweep file kept true meanwhile.

Nothing finished is trained again: a run is known by the digest of its resolved preset, looked up in the manifests of
the sweep's folder. An interrupted run goes on from its checkpoint; a run that failed is tried again when the sweep is
continued; one that diverged is not, because it would diverge again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from attnres_cli import discovery
from attnres_cli.errors import UserError
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.lookup import TRIALS_FOLDER
from attnres_cli.runs.observed import observed_figures
from attnres_cli.runs.state import beating
from attnres_cli.sweep.execution import Execute, Job, JobResult, RunJob, Slot, Stop, stopping_on_signals
from attnres_cli.sweep.job import train_job
from attnres_cli.sweep.resolve import run_preset
from attnres_cli.sweep.results import SETTLED, Run, RunStatus, Sweep, SweepDirectory


class Listener(Protocol):
    """Who shows the progress of a sweep. Called in the process of the engine."""

    def started(self, run: Run) -> None: ...

    def ended(self, run: Run) -> None: ...


@dataclass(frozen=True)
class Todo:
    """One run that is not settled, and the folder it will have. resume: the folder is there with a checkpoint."""

    run: Run
    resume: bool


def run_sweep(
    directory: SweepDirectory,
    sweep: Sweep,
    *,
    slots: Sequence[Slot],
    listener: Listener,
    run_job: RunJob = train_job,
) -> Sweep:
    """Train whatever of `sweep` is not settled and return it as it stands then; its file is always up to date.

    slots: where trainings may run; more than one takes the process pool. Returns early, with status "interrupted",
    after SIGINT, SIGTERM or SIGHUP: the running trainings checkpoint first. Raises UserError when the sweep is running
    elsewhere.
    """
    refuse_if_running(directory)
    todo = outstanding(directory, sweep)
    engine = _Engine(directory, sweep, listener, todo)
    stop = Stop()
    sweep.status = "running"
    directory.write(sweep)
    with beating(lambda: directory.write(sweep)), stopping_on_signals(stop):
        execute = _executor("serial" if len(slots) == 1 else "pool")
        try:
            while (wave := engine.next_wave(longest_first=len(slots) > 1)) and not stop.requested:
                execute(wave, run_job, slots=slots, watch=engine, stop=stop)
        except BaseException:
            sweep.status = "interrupted"
            directory.write(sweep)
            raise
        interrupted = any(run.status in ("planned", "interrupted", "running") for run in sweep.runs)
        sweep.status = "interrupted" if interrupted else "finished"
        directory.write(sweep)
    return sweep


def refuse_if_running(directory: SweepDirectory) -> None:
    """Raise UserError when another process is at work on this sweep."""
    if not directory.exists:
        return
    document = directory.document()
    if document["status"] == "running":
        raise UserError(
            f"Sweep '{directory.name}' is running (process {document['process'].get('pid')}).",
            where=str(directory.path),
            hint=f"attnres sweep show {directory.name}",
        )


def outstanding(directory: SweepDirectory, sweep: Sweep) -> list[Todo]:
    """Every run that is not settled and may train, after the run directories were asked how far they are.

    Updates the runs of `sweep`: status, numbers, and the folder of the next attempt.
    """
    found = _runs_by_digest(directory)
    taken = {path.relative_to(directory.path).as_posix() for path in _folders(directory)}
    todo = []
    for run in sweep.runs:
        if run.awaits_rate:
            continue
        attempts = found.get(run.digest, [])
        finished = next((attempt for attempt in attempts if attempt.status == "finished"), None)
        latest = finished or (attempts[-1] if attempts else None)
        if latest is not None:
            _take_over(run, latest, directory)
        elif not (run.status == "finished" and run.loss is not None):  # its folder may be gone, its result is known
            _reset(run)
        if run.status in SETTLED:
            continue
        resume = latest is not None and run.status == "interrupted" and bool(latest.checkpoints())
        if not resume:
            run.folder = _free_name(run.name, taken)
            taken.add(run.folder)
        todo.append(Todo(run, resume))
    return todo


def read_result(run: Run, directory: RunDirectory) -> None:
    """Copy the numbers of a run directory into the sweep's row: final validation loss, steps, time, and figures of what
    observers saw."""
    state = directory.read_state()
    run.step, run.steps = int(state.get("step") or 0), state.get("steps")
    evaluations = directory.evaluations()
    final = evaluations[-1] if evaluations and evaluations[-1].get("step") == run.steps else None
    run.tokens = None if final is None else final.get("tokens")
    run.loss = None if final is None else final.get("loss")
    run.perplexity = None if final is None else final.get("perplexity")
    run.bits_per_byte = None if final is None else final.get("bits_per_byte")
    rows = directory.train_rows()
    run.train_seconds = rows[-1].get("train_seconds") if rows else None
    run.figures = observed_figures(directory.observations())


class _Engine:
    """The watch of the executor: keeps the rows and the file in step with what happens."""

    def __init__(self, directory: SweepDirectory, sweep: Sweep, listener: Listener, todo: Sequence[Todo]) -> None:
        self.directory, self.sweep, self.listener = directory, sweep, listener
        self.todo: Mapping[str, Todo] = {each.run.digest: each for each in todo}
        self.given: set[str] = set()

    def next_wave(self, *, longest_first: bool) -> list[Job]:
        """Jobs for every run that nothing keeps waiting and that was not handed out before; empty when there is none.

        longest_first: side by side the dearest run goes first, so that none is left over at the end. A run whose
        predecessor will not finish is settled here, as failed.
        """
        ready = [todo for todo in self.todo.values() if todo.run.digest not in self.given and self._may_start(todo.run)]
        if longest_first:
            ready.sort(key=lambda todo: todo.run.cost, reverse=True)
        self.given |= {todo.run.digest for todo in ready}
        return [self._job(todo) for todo in ready]

    def _may_start(self, run: Run) -> bool:
        """Whether the run that has to finish before this one has done so; where it never will, this one fails."""
        if run.after is None:
            return True
        before = next(each for each in self.sweep.runs if each.digest == run.after)
        if before.status in ("failed", "diverged"):
            self.given.add(run.digest)
            run.status, run.error = "failed", f"it starts from {before.name}, which {before.status}"
            self.directory.write(self.sweep)
            self.listener.ended(run)
        return before.status == "finished"

    def started(self, job: Job) -> None:
        run = self.todo[job.key].run
        run.status, run.error = "running", None
        self.directory.write(self.sweep)
        self.listener.started(run)

    def ended(self, job: Job, result: JobResult) -> None:
        run = self.todo[job.key].run
        run.status, run.error = result.status, result.error
        assert run.folder is not None
        folder = RunDirectory(self.directory.path / run.folder)
        if folder.is_run:
            read_result(run, folder)
            if folder.status == "finished":  # even when its process died before it could say so
                run.status, run.error = "finished", None
        if run.status == "finished" and run.loss is None:
            run.status, run.error = "failed", "the run finished without a validation loss"
        self.directory.write(self.sweep)
        self.listener.ended(run)

    def _job(self, todo: Todo) -> Job:
        preset = run_preset(self.sweep, todo.run)
        if preset.digest() != todo.run.digest:
            raise UserError(
                f"Run {todo.run.name} is not what it was when the sweep was planned: presets mean something else now.",
                where=str(self.directory.file_path),
                expected="the version of attnres that planned it, or a new sweep under another --name",
            )
        assert todo.run.folder is not None
        return Job(
            key=todo.run.digest,
            preset_name=preset.name,
            preset=preset.to_dict(),
            source_text=preset.source_text,
            run_folder=str(self.directory.path / todo.run.folder),
            resume=todo.resume,
            after_folder=self._folder_of(todo.run.after),
            after_step=todo.run.after_step,
        )

    def _folder_of(self, digest: str | None) -> str | None:
        """The run directory of another run of the sweep."""
        run = next((each for each in self.sweep.runs if each.digest == digest), None)
        return None if run is None or run.folder is None else str(self.directory.path / run.folder)


def _runs_by_digest(directory: SweepDirectory) -> dict[str, list[RunDirectory]]:
    """The run directories of the sweep by preset digest, in the order in which they were made."""
    found: dict[str, list[tuple[str, RunDirectory]]] = {}
    for run in _run_directories(directory):
        try:
            manifest = run.manifest()
        except UserError:  # it ended before its manifest was written
            continue
        found.setdefault(str(manifest.get("preset_digest")), []).append((str(manifest.get("created")), run))
    return {digest: [run for _, run in sorted(runs, key=lambda pair: pair[0])] for digest, runs in found.items()}


def _run_directories(directory: SweepDirectory) -> Iterator[RunDirectory]:
    for path in _folders(directory):
        if path.is_dir() and not path.name.startswith(".") and (run := RunDirectory(path)).is_run:
            yield run


def _folders(directory: SweepDirectory) -> list[Path]:
    """Everything where a run may lie."""
    trials = directory.path / TRIALS_FOLDER
    return [*sorted(directory.path.iterdir()), *(sorted(trials.iterdir()) if trials.is_dir() else ())]


def _reset(run: Run) -> None:
    run.__dict__.update(run.planned_anew().__dict__)


def _take_over(run: Run, directory: RunDirectory, of_sweep: SweepDirectory) -> None:
    status = directory.status
    if status == "running":
        raise UserError(f"Run '{directory.name}' of this sweep is still running.", where=str(directory.path))
    known: dict[str, RunStatus] = {"finished": "finished", "diverged": "diverged", "failed": "failed"}
    run.folder = directory.path.relative_to(of_sweep.path).as_posix()
    run.status = known.get(status, "interrupted")  # interrupted, stale (killed) or unreadable
    run.error = directory.read_state().get("error")
    read_result(run, directory)


def _free_name(name: str, taken: set[str]) -> str:
    """`name`, or `name-2`, `name-3` … where a failed attempt has it: a run directory is never reused."""
    candidates = (name if number == 1 else f"{name}-{number}" for number in range(1, len(taken) + 3))
    return next(candidate for candidate in candidates if candidate not in taken)


def _executor(name: str) -> Execute:
    execute: Execute = discovery.load("sweep.executors", name, what="executor").execute
    return execute
