"""What happens before the first step: the data is prepared, the model is built, and the run begins at step 0, goes on
from its newest checkpoint, or leaves another run.

There is nothing to save yet, so a signal ends the run here, with a sentence that says what is kept.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import torch

from attnres_cli.data.prepare import Dataset, prepare
from attnres_cli.errors import Interrupted, UserError, is_out_of_memory, plural
from attnres_cli.model.build import build_model
from attnres_cli.preset.reading import Preset
from attnres_cli.runs import creation
from attnres_cli.runs.creation import Start
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.train import checkpoint
from attnres_cli.train.branching import Branch
from attnres_cli.train.events import Preparing, Started
from attnres_cli.train.journal import Journal
from attnres_cli.train.manifest import manifest_of
from attnres_cli.train.memory import weights_do_not_fit
from attnres_cli.train.session import Session, open_session
from attnres_cli.train.stopping import StopRequest

# The last phase before the first step: the data is prepared by then.
BUILDING = "building the model"


def start_of(preset: Preset) -> Start:
    """What a run of this preset begins from, with the command line of this process."""
    return Start(preset.source_text, preset.to_toml(), preset.name, shlex.join(["attnres", *sys.argv[1:]]))


def resume_command(run: RunDirectory) -> str:
    """The command that continues `run`, as a user can paste it."""
    return creation.resume_command(run.path)


def begin(
    preset: Preset, journal: Journal, stop: StopRequest, dataset: Dataset | None, *, resume: bool, branch: Branch | None
) -> Session:
    """Everything up to the first step of `preset` in the journal's run; afterwards the journal says where that is.

    dataset: the prepared data, or None where it is still to prepare. Raises Interrupted when a signal asked to stop,
    UserError for bad input and where an earlier part of the run, or the run that it leaves, was another one.
    """
    return _Beginning(preset, journal, stop, resumes=resume).session(dataset, branch)


class _Beginning:
    def __init__(self, preset: Preset, journal: Journal, stop: StopRequest, *, resumes: bool) -> None:
        self.preset, self.journal, self.run, self.stop, self.resumes = preset, journal, journal.run, stop, resumes
        self.never_began = self.run.never_began

    def session(self, dataset: Dataset | None, branch: Branch | None) -> Session:
        if dataset is None:
            dataset = prepare(self.preset, progress=self._prepare)
        self._prepare(BUILDING)
        try:
            session = open_session(self.preset, dataset, self.journal.note)
            if self.resumes and not self.never_began:
                self._restore(session)
            elif branch is not None:
                self._branch_off(session, branch)
            else:
                self._record_start(session)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            without_memory = build_model(self.preset, dataset.vocab_size, device="meta", native=False)
            raise weights_do_not_fit(without_memory, where=str(self.run.path)) from error
        for note in dataset.notes:
            self.journal.note(note)
        self._announce(session)
        return session

    # ------------------------------------------------------------------ while there is nothing to save

    def _prepare(self, phase: str, done: int = 0, total: int = 0) -> None:
        """Show what is being prepared, unless a signal has ended it."""
        if self.stop.requested:
            raise self._interrupted(phase, done, total)
        self.journal.tell(Preparing(phase, done, total))

    def _interrupted(self, phase: str, done: int, total: int) -> Interrupted:
        if self.resumes:
            kept = "it has taken no step yet" if self.never_began else "its checkpoints included"
            return Interrupted(
                f"Interrupted while {phase}: the run is as it was, {kept}.",
                hint=f"resume with: {resume_command(self.run)}",
            )
        kept = "the prepared data is kept" if phase == BUILDING else "no data prepared in part is kept"
        counted = f" ({done / total:.0%} done)" if total else ""
        return Interrupted(
            f"Interrupted while {phase}{counted}, before the first step: no run was begun, {kept}.",
            hint=f"start again with: {shlex.join(['attnres', *sys.argv[1:]])}",
        )

    # ------------------------------------------------------------------ where the first step is

    def _record_start(self, session: Session) -> None:
        """Also of a run that was stopped before it came to this: nothing tells it from one that was not."""
        self._write_identity(self._manifest(session))
        self.journal.event("started")

    def _branch_off(self, session: Session, branch: Branch) -> None:
        """Begin where another run stood, with what it measured up to there."""
        branch.refuse_another_course(self.preset)
        self._refuse_other_data(session, branch.trunk)
        manifest = self._manifest(session) | {
            "branched_from": branch.facts(self.run)
        }  # before the initial weights are gone
        self.journal.position = checkpoint.load(branch.checkpoint, session.model, session.optimiser)
        self._write_identity(manifest)
        branch.hand_over(self.run)
        self.journal.recall_evaluation()
        self.run.write_state(step=self.journal.position.step, resume=resume_command(self.run))
        self.journal.event("branched", trunk=manifest["branched_from"]["run"])

    def _restore(self, session: Session) -> None:
        """Go on from the newest checkpoint; what was written after it is forgotten and will be written again."""
        checkpoints = self.run.checkpoints()
        if self.run.manifest_path.exists():
            self._refuse_other_data(session, self.run)
        if checkpoints:
            self.journal.position = checkpoint.load(checkpoints[-1], session.model, session.optimiser)
            self.run.truncate_metrics(after_step=self.journal.position.step)
            self.journal.recall_evaluation()
        else:
            self.journal.note("There is no checkpoint of this run: it starts again at step 0.")
            self.run.truncate_metrics(after_step=-1)
            self._record_start(session)
        self.journal.event("resumed")
        if self.journal.position.step == self.preset.steps:
            self.journal.note("This run has finished; there is nothing left to do.")

    def _manifest(self, session: Session) -> dict[str, Any]:
        created = datetime.now(UTC).isoformat(timespec="seconds")
        command = self.run.read_state().get("command") or start_of(self.preset).command
        return manifest_of(session, command=str(command), created=created)

    def _write_identity(self, manifest: Mapping[str, Any]) -> None:
        self.run.write_presets(preset=self.preset.source_text, resolved=self.preset.to_toml())
        self.run.write_manifest(manifest)

    def _refuse_other_data(self, session: Session, earlier: RunDirectory) -> None:
        """A corpus that is read from elsewhere (files, the standard library) may have changed since the earlier run, or
        the earlier part of this one, began."""
        recorded = earlier.manifest()["data"]
        found = {
            "data_hash": session.dataset.data_hash,
            "validation_hash": session.dataset.validation_hash,
            "validation_set_hash": session.validation.digest,
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

    def _announce(self, session: Session) -> None:
        train, model, preset = self.preset.train, session.model, self.preset
        parameters = sum(p.numel() for p in model.parameters())
        threads = torch.get_num_threads()
        epochs = session.batches.epoch_of(preset.steps)
        facts = (
            f"{preset.name}, {preset.residual.scheme}, seed {train.seed}"
            + (f": {summary}" if (summary := model.residual.summary()) else ""),
            f"{parameters / 1e6:.2f} M parameters on {session.device} "
            f"({threads} thread{'s' * (threads > 1)}), {train.precision}",
            session.computed_by,
            f"{preset.steps} {plural(preset.steps, 'step')} of {train.tokens_per_step:,} "
            f"{plural(train.tokens_per_step, 'token')} "
            f"in {preset.accumulation_steps} micro-batch{'es' * (preset.accumulation_steps > 1)}, "
            f"{epochs:.2f} epochs of {preset.data.corpus}",
        )
        first_step = self.journal.position.step
        self.journal.tell(Started(str(self.run.path), first_step, preset.steps, train.tokens_per_step, facts))
