"""Everything a run needs before its first step, built from the preset alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import torch

from attnres_cli import discovery
from attnres_cli.data.batches import IGNORED_TARGET, Batches, validation_batches
from attnres_cli.data.prepare import Dataset
from attnres_cli.model.build import build_model
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.preset.reading import Preset
from attnres_cli.train.device import choose_device, set_up
from attnres_cli.train.evaluation import ValidationSet
from attnres_cli.train.observation import Probe
from attnres_cli.train.optimisers import Optimiser
from attnres_cli.train.step import LossFunction, compiled_loss, to_device


@dataclass
class Session:
    """One run in memory. `loss_function` is `model.loss`, compiled where the preset asks for it."""

    preset: Preset
    dataset: Dataset
    device: torch.device
    model: LanguageModel
    loss_function: LossFunction
    optimiser: Optimiser
    batches: Batches
    validation: ValidationSet
    probe: Probe

    @property
    def computed_by(self) -> str:
        """Who computes the residual path, and why."""
        if self.loss_function != self.model.loss:
            return "residual path by torch.compile"
        return self.model.computed_by


def open_session(preset: Preset, dataset: Dataset, announce: Callable[[str], None]) -> Session:
    """Build model, optimiser, batches and validation set. Raises UserError when the corpus or device does not fit."""
    device = choose_device(preset.train.device)
    set_up(preset.train, device)
    context = preset.model.context_tokens
    batches = Batches(
        dataset.train, context_tokens=context, sequences_per_step=preset.sequences_per_step, seed=preset.train.seed
    )
    validation = fixed_validation_set(dataset, context_tokens=context, tokens=preset.eval.tokens)
    model = build_model(preset, dataset.vocab_size, device=device)
    optimiser = Optimiser(model, preset)
    sequences = preset.observe.probe_sequences
    probe = Probe(
        to_device(validation.inputs[:sequences], device),
        to_device(validation.targets[:sequences], device),
        preset.train.precision,
        _answer_kinds(preset, validation, sequences, device),
    )
    loss_function = compiled_loss(model, preset, announce)
    return Session(preset, dataset, device, model, loss_function, optimiser, batches, validation, probe)


def _answer_kinds(
    preset: Preset, validation: ValidationSet, sequences: int, device: torch.device
) -> torch.Tensor | None:
    """What kind of question every prediction of the probe batch answers, where the corpus tells questions apart."""
    corpus = discovery.load("data.corpora", preset.data.corpus, what="corpus")
    of_corpus = getattr(corpus, "answer_kinds", None)
    if of_corpus is None:
        return None
    kinds = of_corpus(preset.data, validation.inputs[:sequences], validation.targets[:sequences] != IGNORED_TARGET)
    return None if kinds is None else to_device(kinds, device)


def fixed_validation_set(dataset: Dataset, *, context_tokens: int, tokens: int) -> ValidationSet:
    """The validation tokens that every run with this data and context is measured on, and their hash."""
    inputs, targets, num_bytes = validation_batches(dataset.validation, context_tokens=context_tokens, tokens=tokens)
    digest = hashlib.sha256(inputs.tobytes() + targets.tobytes()).hexdigest()
    return ValidationSet(inputs, targets, num_bytes, digest)
