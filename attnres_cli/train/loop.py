"""The training loop. Each step: update, log, evaluate, observe, checkpoint, in this order, so that a checkpoint holds
everything that was measured up to it and resuming repeats nothing. What comes before the first step is beginning.py.

Only `take_step` is on the clock.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

import torch

from attnres_cli.data.prepare import Dataset
from attnres_cli.errors import ExitCode, UserError, is_out_of_memory, plural, storage_trouble
from attnres_cli.preset.reading import Preset
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.process import own_process
from attnres_cli.runs.state import ENDED
from attnres_cli.train import checkpoint
from attnres_cli.train.beginning import begin, resume_command, start_of
from attnres_cli.train.branching import Branch
from attnres_cli.train.checkpoint import Position
from attnres_cli.train.evaluation import Evaluation, evaluate
from attnres_cli.train.events import Checkpointed, Ended, Evaluated, Event, Listener, Stepped
from attnres_cli.train.journal import Journal
from attnres_cli.train.memory import OptimiserOutOfMemory, weights_do_not_fit
from attnres_cli.train.observation import observe_all
from attnres_cli.train.schedule import constant_steps
from attnres_cli.train.step import Diverged, StepFigures, take_step
from attnres_cli.train.stopping import StopRequest


@dataclass(frozen=True)
class TrainResult:
    """How a call of `train` ended. status: finished or interrupted; evaluation: the last one (made at
    `evaluated_step`), None when there was none."""

    run: RunDirectory
    status: str
    step: int
    evaluation: Evaluation | None
    evaluated_step: int | None
    train_seconds: float


def train(
    preset: Preset,
    run: RunDirectory,
    *,
    dataset: Dataset | None = None,
    on_event: Listener | None = None,
    resume: bool = False,
    branch: Branch | None = None,
) -> TrainResult:
    """Train `preset` in `run` (just created, or with `resume` an earlier run of the same preset) to its end.

    dataset: the prepared data, where the caller has it already. branch: where a new run leaves another one instead of
    beginning at step 0. Returns when finished or when a signal asked to stop, after a checkpoint. Raises UserError for
    bad input, divergence (exit code 4) and lack of memory (exit code 5); the run's state says which.
    """
    assert not (resume and branch), "a run that is resumed has left its trunk already"
    return _Training(preset, run, on_event or (lambda event: None)).run_to_end(dataset, resume, branch)


class _Training:
    """One call of `train`: the loop and what it remembers between steps."""

    def __init__(self, preset: Preset, run: RunDirectory, tell: Listener) -> None:
        self.preset, self.run, self.tell = preset, run, tell
        self.journal = Journal(run, tell)
        self.seconds_since_log, self.steps_since_log = 0.0, 0
        self.is_new = True  # and is gone again, if what it is to train turns out to be impossible
        self.status_before: str | None = None  # of a run that is resumed, until it goes on
        self.constant_steps = constant_steps(preset)  # its checkpoint is kept: runs of other horizons branch off there

    @property
    def position(self) -> Position:
        return self.journal.position

    def run_to_end(self, dataset: Dataset | None, resume: bool, branch: Branch | None) -> TrainResult:
        self.is_new = not resume
        with self._recording_full_disk(), self._recording_failure(), self.run.beating(), StopRequest() as stop:
            if self.is_new:
                self.run.write_start(start_of(self.preset))
            else:
                before = self.run.read_state()["stored_status"]
                self.status_before = before if before in ENDED else "interrupted"  # killed, it could not say so
            self.run.write_state(status="running", steps=self.preset.steps, error=None, **own_process())
            self.session = begin(self.preset, self.journal, stop, dataset, resume=resume, branch=branch)
            self.status_before = None
            if self.position.step == 0 and self.preset.eval.every_steps:
                self._evaluate()
            while self.position.step < self.preset.steps:
                if stop.requested:
                    return self._end("interrupted")
                self._step()
            return self._end("finished")

    def _step(self) -> None:
        step = self.position.step
        inputs, targets = self.session.batches.step(step)
        began = time.perf_counter()
        s = self.session
        figures = take_step(s.model, s.loss_function, s.optimiser, self.preset, step, inputs, targets)
        seconds = time.perf_counter() - began
        self.journal.position = Position(step + 1, self.position.train_seconds + seconds)
        self.seconds_since_log += seconds
        self.steps_since_log += 1
        self.tell(Stepped(step + 1, figures, seconds))
        if self._due(self.preset.train.log_every_steps) or step == 0:
            self._log(figures)
        if self._due(self.preset.eval.every_steps):
            self._evaluate()
        if self._due(self.preset.observe.every_steps):
            self._observe()
        if self._due(self.preset.train.checkpoint_every_steps) or self.position.step == self.constant_steps:
            self._checkpoint()

    def _due(self, every_steps: int) -> bool:
        """Whether something that happens every so many steps happens now; the last step is always due."""
        step = self.position.step
        return step == self.preset.steps or (every_steps > 0 and step % every_steps == 0)

    # ------------------------------------------------------------------ what is written

    def _log(self, figures: StepFigures) -> None:
        tokens = self.preset.train.tokens_per_step
        self.run.append_metric(
            {
                "kind": "train",
                "step": self.position.step,
                "tokens": self.position.step * tokens,
                **asdict(figures),
                "tokens_per_second": tokens * self.steps_since_log / max(self.seconds_since_log, 1e-9),
                "step_seconds": self.seconds_since_log / self.steps_since_log,
                "train_seconds": self.position.train_seconds,
            }
        )
        self.seconds_since_log, self.steps_since_log = 0.0, 0
        self.run.write_state(step=self.position.step)

    def _evaluate(self) -> None:
        began = time.perf_counter()
        s = self.session
        evaluation = evaluate(
            s.model,
            s.loss_function,
            s.validation,
            sequences=self.preset.train.micro_batch_sequences,
            precision=self.preset.train.precision,
        )
        self.run.append_metric(
            {
                "kind": "eval",
                "step": self.position.step,
                "tokens": self.position.step * self.preset.train.tokens_per_step,
                **asdict(evaluation),
                "eval_seconds": time.perf_counter() - began,
            }
        )
        self.journal.evaluation, self.journal.evaluated_step = evaluation, self.position.step
        self.tell(Evaluated(self.position.step, evaluation))

    def _observe(self) -> None:
        if self.preset.observe.observers:
            tokens = self.position.step * self.preset.train.tokens_per_step
            observe_all(
                self.run,
                self.session.model,
                self.session.probe,
                self.preset.observe.observers,
                self.position.step,
                tokens,
            )

    def _checkpoint(self) -> None:
        keep = () if self.constant_steps is None else (self.constant_steps,)
        folder = checkpoint.save(self.run, self.session.model, self.session.optimiser, self.position, keep=keep)
        self.run.write_state(step=self.position.step, resume=resume_command(self.run))
        self.tell(Checkpointed(self.position.step, folder))

    # ------------------------------------------------------------------ how it ends

    def _end(self, status: str) -> TrainResult:
        resume = None
        if status == "interrupted":
            self._checkpoint()
            resume = resume_command(self.run)
        self.journal.event(status)
        self.run.keep_columns()
        step, train_seconds = self.position.step, self.position.train_seconds
        self.run.write_state(status=status, step=step, resume=resume)
        self.tell(Ended(status, step, train_seconds, resume))
        return TrainResult(self.run, status, step, self.journal.evaluation, self.journal.evaluated_step, train_seconds)

    @contextmanager
    def _recording_full_disk(self) -> Iterator[None]:
        """A disk that is full, or a folder that may not be written, is a sentence, in the state too if that can be
        written."""
        try:
            yield
        except OSError as error:
            trouble = storage_trouble(error, self.run.path)
            if trouble is None:
                raise
            if self._is_kept:
                saved = self.run.checkpoints()
                kept = f"checkpoint {saved[-1].name} is whole" if saved else "nothing was saved yet"
                stopped = (
                    f"stopped after step {self.position.step}" if self.status_before is None else "was not resumed"
                )
                what = f"{trouble[0]}. The run {stopped}; {kept}."
                hint = f"{trouble[1]}, then go on with: {resume_command(self.run)}"
                if self.status_before is None:
                    self._record(status="failed", step=self.position.step, error=what)
                else:
                    self._record(status=self.status_before, error=what)
            else:
                what = f"{trouble[0]}. No run was begun."
                hint = f"{trouble[1]}, then start again with: {shlex.join(['attnres', *sys.argv[1:]])}"
                shutil.rmtree(self.run.path, ignore_errors=True)
            raise UserError(what, where=str(self.run.path), hint=hint) from error

    def _record(self, **changes: object) -> None:
        """What the state says of a run that fails; on a full disk it may be unable to."""
        with suppress(OSError):
            self.run.write_state(**changes)

    @contextmanager
    def _recording_failure(self) -> Iterator[None]:
        """Whatever goes wrong, the run directory says so; divergence and lack of memory become sentences."""
        try:
            yield
        except Diverged as error:
            self._checkpoint()  # the update was not made, so the weights are the last good ones
            self.journal.event("diverged", reason=str(error))
            self.run.write_state(status="diverged", step=self.position.step, resume=None, error=str(error))
            raise UserError(
                f"Training diverged at step {self.position.step + 1}: {error}.",
                where=str(self.run.path),
                hint="lower train.learning_rate; the weights before this step are in checkpoints/",
                exit_code=ExitCode.DIVERGED,
            ) from error
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                said = str(error).strip() or type(error).__name__
                self._record(status="failed", step=self.position.step, error=said.splitlines()[0])
                raise
            explained = self._out_of_memory(error)
            self._record(status="failed", step=self.position.step, error=str(explained))
            raise explained from error
        except UserError as error:
            if self._is_kept or error.exit_code == ExitCode.OUT_OF_MEMORY:  # which a larger machine may put right
                self._record(status=self.status_before or "failed", error=str(error))
            else:  # wrong input found before the first step: a run that never began leaves no directory behind
                shutil.rmtree(self.run.path)
            raise
        except KeyboardInterrupt:
            if self._is_kept:
                self._record(status=self.status_before or "interrupted")
            else:
                shutil.rmtree(self.run.path)
            raise
        except BaseException as error:
            self._record(status="failed", step=self.position.step, error=str(error) or type(error).__name__)
            raise

    @property
    def _is_kept(self) -> bool:
        """Whether there is a run to keep, now that it ends early."""
        return not self.is_new or self.run.manifest_path.exists()

    def _out_of_memory(self, error: Exception) -> UserError:
        if isinstance(error, OptimiserOutOfMemory):
            optimizer = self.preset.train.optimizer
            return weights_do_not_fit(self.session.model, where=str(self.run.path), optimizer=optimizer)
        train, model = self.preset.train, self.preset.model
        smaller = max(
            (n for n in range(1, train.micro_batch_sequences) if self.preset.sequences_per_step % n == 0), default=1
        )
        hint = f"add --set train.micro_batch_sequences={smaller} (same tokens per step), for every arm you compare"
        if train.micro_batch_sequences == 1:
            hint = "use a smaller model or context; `attnres plan` estimates the memory beforehand"
        return UserError(
            f"Out of memory: {train.micro_batch_sequences} {plural(train.micro_batch_sequences, 'sequence')} "
            f"of {model.context_tokens} {plural(model.context_tokens, 'token')} "
            f"through {model.transformer_blocks} {plural(model.transformer_blocks, 'block')} "
            f"of width {model.d_model} with {self.preset.residual.scheme} "
            f"{'does' if train.micro_batch_sequences == 1 else 'do'} not fit.",
            where=str(self.run.path),
            hint=hint,
            exit_code=ExitCode.OUT_OF_MEMORY,
        )


__all__ = ["Event", "TrainResult", "resume_command", "train"]
