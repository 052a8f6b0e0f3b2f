"""A run's model with its trained weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from attnres_cli.data.sources import vocabulary_size_of
from attnres_cli.generate.spelling import Spelling, spelling_of
from attnres_cli.model.build import build_model
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.preset.reading import Preset, preset_from_dict
from attnres_cli.runs.checkpoints import find_checkpoint
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.train import checkpoint


@dataclass(frozen=True)
class Trained:
    """step: the optimiser step at which the weights were written."""

    run: RunDirectory
    preset: Preset
    step: int
    model: LanguageModel
    spelling: Spelling


def load_trained(run: RunDirectory, device: torch.device, *, step: int | None = None) -> Trained:
    """The model of `run` with the weights of its last checkpoint, or of the one at `step`.

    Raises UserError when there is none, when it is damaged, or when the run's tokenizer is not on this machine.
    """
    _, folder = find_checkpoint(run, step)
    preset = preset_from_dict(run.resolved(), str(run.manifest().get("preset_name", run.name)))
    vocab_size = vocabulary_size_of(preset.data, preset.source_folder)
    spelling = spelling_of(preset.data, vocab_size, preset.source_folder)
    model = build_model(preset, vocab_size, device=device)
    position = checkpoint.load(folder, model)
    return Trained(run, preset, position.step, model.eval(), spelling)
