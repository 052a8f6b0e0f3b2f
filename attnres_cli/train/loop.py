"""The training loop. Each step: update, log, evaluate, observe, checkpoint, in this order, so that a checkpoint holds
everything that was measured up to it and resuming repeats nothing.

Only `take_step` is on the clock.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import torch

from attnres_cli.data.prepare import Dataset, prepare
from attnres_cli.errors import ExitCode, Interrupted, UserError, is_out_of_memory
from attnres_cli.preset.reading import Preset
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.process import own_process
from attnres_cli.train import checkpoint
from attnres_cli.train.branching import Branch
from attnres_cli.train.checkpoint import Position
from attnres_cli.train.evaluation import Evaluation, evaluate
from attnres_cli.train.events import Checkpointed, Ended, Evaluated, Event, Listener, Noted, Preparing, Started, Stepped
from attnres_cli.train.manifest import manifest_of
from attnres_cli.train.observation import observe_all
from attnres_cli.train.schedule import constant_steps
from attnres_cli.train.session import open_session
from attnres_cli.train.step import Diverged, StepFigures, take_step
from attnres_cli.train.stopping import StopRequest

# The last phase before the first step: the data is prepared by then.
BUILDING = "building the model"


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


def resume_command(run: RunDirectory) -> str:
    """The command that continues `run`, as a user can paste it."""
    return shlex.join(["attnres", "train", "--resume", str(run.path)])


class _Training:
    """One call of `train`: the loop and what it remembers between steps."""

    def __init__(self, preset: Preset, run: RunDirectory, tell: Listener) -> None:
        self.preset, self.run, self.tell = preset, run, tell
        self.position = Position(0, 0.0)
        self.last_evaluation: Evaluation | None = None
        self.evaluated_step: int | None = None
        self.seconds_since_log, self.steps_since_log = 0.0, 0
        self.status_before: str | None = None  # of a run that is resumed, until it goes on
        self.constant_steps = constant_steps(preset)  # its checkpoint is kept: runs of other horizons branch off there

    def run_to_end(self, dataset: Dataset | None, resume: bool, branch: Branch | None) -> TrainResult:
        with self._recording_failure(), self.run.beating(), StopRequest() as stop:
            if resume:
                self.status_before = self.run.read_state()["stored_status"]
            self.run.write_state(status="running", steps=self.preset.steps, error=None, **own_process())
            if dataset is None:
                dataset = prepare(self.preset, progress=lambda *counted: self._prepare(stop, *counted))
            self._prepare(stop, BUILDING)
            self.session = open_session(self.preset, dataset, self._note)
            if resume:
                self._restore()
            elif branch is not None:
                self._branch_off(branch)
            else:
                self._record_start()
            self.status_before = None
            self._announce(dataset)
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
        self.position = Position(step + 1, self.position.train_seconds + seconds)
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
        self.last_evaluation, self.evaluated_step = evaluation, self.position.step
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

    def _event_row(self, event: str, **facts: object) -> None:
        self.run.append_metric({"kind": "event", "step": self.position.step, "event": event, **facts})
        self.run.log(f"step {self.position.step}: {event}" + "".join(f", {k} {v}" for k, v in facts.items()))

    def _note(self, text: str) -> None:
        self.run.log(text)
        self.tell(Noted(text))

    # ------------------------------------------------------------------ beginning and end

    def _prepare(self, stop: StopRequest, phase: str, done: int = 0, total: int = 0) -> None:
        """Show what is being prepared; before the first step there is nothing to save, so a signal ends it here."""
        if stop.requested:
            raise self._interrupted(phase, done, total)
        self.tell(Preparing(phase, done, total))

    def _interrupted(self, phase: str, done: int, total: int) -> Interrupted:
        """What there is to say when a signal comes before the first step."""
        if self.status_before is not None:
            return Interrupted(
                f"Interrupted while {phase}: the run is as it was, its checkpoints included.",
                hint=f"resume with: {resume_command(self.run)}",
            )
        kept = "the prepared data is kept" if phase == BUILDING else "no data prepared in part is kept"
        counted = f" ({done / total:.0%} done)" if total else ""
        return Interrupted(
            f"Interrupted while {phase}{counted}, before the first step: no run was begun, {kept}.",
            hint=f"start again with: {shlex.join(['attnres', *sys.argv[1:]])}",
        )

    def _record_start(self) -> None:
        self._write_identity(self._manifest())
        self._event_row("started")

    def _branch_off(self, branch: Branch) -> None:
        """Begin where another run stood, with what it measured up to there."""
        branch.refuse_another_course(self.preset)
        self._refuse_other_data(branch.trunk)
        manifest = self._manifest() | {"branched_from": branch.facts(self.run)}  # before the initial weights are gone
        self.position = checkpoint.load(branch.checkpoint, self.session.model, self.session.optimiser)
        self._write_identity(manifest)
        branch.hand_over(self.run)
        self._recall_last_evaluation()
        self.run.write_state(step=self.position.step, resume=resume_command(self.run))
        self._event_row("branched", trunk=manifest["branched_from"]["run"])

    def _manifest(self) -> dict[str, Any]:
        created = datetime.now(UTC).isoformat(timespec="seconds")
        return manifest_of(self.session, command=shlex.join(["attnres", *sys.argv[1:]]), created=created)

    def _write_identity(self, manifest: Mapping[str, Any]) -> None:
        self.run.write_presets(preset=self.preset.source_text, resolved=self.preset.to_toml())
        self.run.write_manifest(manifest)

    def _restore(self) -> None:
        """Go on from the newest checkpoint; what was written after it is forgotten and will be written again."""
        checkpoints = self.run.checkpoints()
        if self.run.manifest_path.exists():
            self._refuse_other_data(self.run)
        if checkpoints:
            self.position = checkpoint.load(checkpoints[-1], self.session.model, self.session.optimiser)
            self.run.truncate_metrics(after_step=self.position.step)
            self._recall_last_evaluation()
        else:
            self._note("There is no checkpoint of this run: it starts again at step 0.")
            self.run.truncate_metrics(after_step=-1)
            self._record_start()
        self._event_row("resumed")
        if self.position.step == self.preset.steps:
            self._note("This run has finished; there is nothing left to do.")

    def _recall_last_evaluation(self) -> None:
        if rows := self.run.evaluations():
            self.last_evaluation = Evaluation(*(rows[-1][key] for key in ("loss", "perplexity", "bits_per_byte")))
            self.evaluated_step = rows[-1]["step"]

    def _refuse_other_data(self, earlier: RunDirectory) -> None:
        """A corpus that is read from elsewhere (files, the standard library) may have changed since the earlier run, or
        the earlier part of this one, began."""
        recorded = earlier.manifest()["data"]
        found = {
            "data_hash": self.session.dataset.data_hash,
            "validation_hash": self.session.dataset.validation_hash,
            "validation_set_hash": self.session.validation.digest,
        }
        changed = [name for name, value in found.items() if recorded.get(name) != value]
        if changed:
            raise UserError(
                f"The data is not what this run began with: {changed[0]} was {str(recorded.get(changed[0]))[:12]}, "
                f"and is {found[changed[0]][:12]} now.",
                where=str(earlier.path),
                expected=f"the same text for corpus '{self.preset.data.corpus}'",
                hint="bring the old files back, or start a new run on the new text",
            )

    def _announce(self, dataset: Dataset) -> None:
        for note in dataset.notes:
            self._note(note)
        train, model = self.preset.train, self.session.model
        parameters = sum(p.numel() for p in model.parameters())
        threads = torch.get_num_threads()
        epochs = self.session.batches.epoch_of(self.preset.steps)
        facts = (
            f"{self.preset.name}, {self.preset.residual.scheme}, seed {train.seed}"
            + (f": {summary}" if (summary := model.residual.summary()) else ""),
            f"{parameters / 1e6:.2f} M parameters on {self.session.device} "
            f"({threads} thread{'s' * (threads > 1)}), {train.precision}",
            self.session.computed_by,
            f"{self.preset.steps} steps of {train.tokens_per_step:,} tokens "
            f"in {self.preset.accumulation_steps} micro-batch{'es' * (self.preset.accumulation_steps > 1)}, "
            f"{epochs:.2f} epochs of {self.preset.data.corpus}",
        )
        self.tell(Started(str(self.run.path), self.position.step, self.preset.steps, train.tokens_per_step, facts))

    def _end(self, status: str) -> TrainResult:
        resume = None
        if status == "interrupted":
            self._checkpoint()
            resume = resume_command(self.run)
        self._event_row(status)
        self.run.keep_columns()
        self.run.write_state(status=status, step=self.position.step, resume=resume)
        self.tell(Ended(status, self.position.step, self.position.train_seconds, resume))
        return TrainResult(
            self.run,
            status,
            self.position.step,
            self.last_evaluation,
            self.evaluated_step,
            self.position.train_seconds,
        )

    @contextmanager
    def _recording_failure(self) -> Iterator[None]:
        """Whatever goes wrong, the run directory says so; divergence and lack of memory become sentences."""
        try:
            yield
        except Diverged as error:
            self._checkpoint()  # the update was not made, so the weights are the last good ones
            self._event_row("diverged", reason=str(error))
            self.run.write_state(status="diverged", step=self.position.step, resume=None, error=str(error))
            raise UserError(
                f"Training diverged at step {self.position.step + 1}: {error}.",
                where=str(self.run.path),
                hint="lower train.learning_rate; the weights before this step are in checkpoints/",
                exit_code=ExitCode.DIVERGED,
            ) from error
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            self.run.write_state(status="failed", step=self.position.step, error=str(error).strip().splitlines()[0])
            if not is_out_of_memory(error):
                raise
            raise self._out_of_memory() from error
        except UserError as error:
            if self.run.manifest_path.exists():
                self.run.write_state(status=self.status_before or "failed", error=str(error))
            else:  # wrong input found before the first step: a run that never began leaves no directory behind
                shutil.rmtree(self.run.path)
            raise
        except KeyboardInterrupt:
            if self.run.manifest_path.exists():
                self.run.write_state(status=self.status_before or "interrupted")
            else:
                shutil.rmtree(self.run.path)
            raise
        except BaseException as error:
            self.run.write_state(status="failed", step=self.position.step, error=str(error) or type(error).__name__)
            raise

    def _out_of_memory(self) -> UserError:
        train, model = self.preset.train, self.preset.model
        smaller = max(
            (n for n in range(1, train.micro_batch_sequences) if self.preset.sequences_per_step % n == 0), default=1
        )
        hint = f"add --set train.micro_batch_sequences={smaller} (same tokens per step), for every arm you compare"
        if train.micro_batch_sequences == 1:
            hint = "use a smaller model or context; `attnres plan` estimates the memory beforehand"
        return UserError(
            f"Out of memory: {train.micro_batch_sequences} sequences of {model.context_tokens} tokens "
            f"through {model.transformer_blocks} blocks "
            f"of width {model.d_model} with {self.preset.residual.scheme} do not fit.",
            where=str(self.run.path),
            hint=hint,
            exit_code=ExitCode.OUT_OF_MEMORY,
        )


__all__ = ["Event", "TrainResult", "resume_command", "train"]
