"""Presets as arms of an interleaved bench: whole training steps on random tokens; their peak memory, measured apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from attnres_cli.bench.interleaved import BenchResult, interleave
from attnres_cli.bench.peak import peak_bytes
from attnres_cli.errors import UserError
from attnres_cli.model.build import build_model
from attnres_cli.model.counting import training_flops_per_token
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.preset.reading import Preset
from attnres_cli.train.device import choose_device, set_up
from attnres_cli.train.optimisers import Optimiser
from attnres_cli.train.step import Array, LossFunction, compiled_loss, take_step


@dataclass
class TrainingArm:
    """A model with its optimiser, and one batch of random tokens that it takes training steps on again and again.

    The learning rate is that of the middle of the schedule. Everything a step does in training is in the step: all
    micro-batches, the gradient norm, clipping, the update.
    """

    preset: Preset
    model: LanguageModel
    optimiser: Optimiser
    loss: LossFunction
    batch: tuple[Array, Array]
    facts: dict[str, Any]

    @staticmethod
    def build(
        preset: Preset, vocab_size: int, device: torch.device, *, announce: Callable[[str], None] = lambda _: None
    ) -> TrainingArm:
        """announce: told in one sentence when torch.compile is wanted and does not work."""
        model = build_model(preset, vocab_size, device=device)
        loss = compiled_loss(model, preset, announce)
        shape = (preset.sequences_per_step, preset.model.context_tokens)
        inputs, targets = np.random.default_rng(0).integers(0, vocab_size, size=(2, *shape), dtype=np.int64)
        facts = {
            "scheme": preset.residual.scheme,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "training_flops_per_token": training_flops_per_token(model, preset.model.context_tokens),
            "tokens_per_step": preset.train.tokens_per_step,
            "micro_batch_sequences": preset.train.micro_batch_sequences,
            "precision": preset.train.precision,
            "compiled": loss != model.loss,
        }
        return TrainingArm(preset, model, Optimiser(model, preset), loss, (inputs, targets), facts)

    def step(self) -> None:
        take_step(self.model, self.loss, self.optimiser, self.preset, self.preset.steps // 2, *self.batch)

    def resident_bytes(self) -> int:
        """Weights, tables and optimiser state."""
        tensors = [*self.model.parameters(), *self.model.buffers(), *self.optimiser.tensors().values()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def bench_presets(
    presets: Mapping[str, Preset],
    *,
    vocab_sizes: Mapping[str, int],
    pairs: int = 7,
    warmup: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> BenchResult:
    """Time one optimiser step of every arm in turn, `pairs` times; the first arm is the baseline of the ratios.

    All models are in memory at once. Each arm's first step, which compiles and fills caches, runs off the clock and is
    kept as the fact `first_step_seconds`; a further untimed step measures the peak of memory. Threads and device are
    those of the first preset; raises UserError where another one asks for a different device.
    """
    first = next(iter(presets.values()))
    device = choose_device(first.train.device)
    for name, preset in presets.items():
        if choose_device(preset.train.device) != device:
            raise UserError(
                f"The arms are not on one device: {name} asks for {preset.train.device}, the first arm is on {device}.",
                where="train.device",
            )
    set_up(first.train, device)
    notes: list[str] = []
    arms: dict[str, TrainingArm] = {}
    step_peaks: dict[str, int] = {}
    for name, preset in presets.items():
        arm = TrainingArm.build(preset, vocab_sizes[name], device, announce=notes.append)
        start = time.perf_counter()
        arm.step()
        synchronize(device)
        arm.facts["first_step_seconds"] = time.perf_counter() - start
        step_peaks[name] = peak_bytes(arm.step, device)
        arms[name] = arm
    result = interleave(
        {name: arm.step for name, arm in arms.items()},
        pairs=pairs,
        warmup=warmup,
        synchronize=lambda: synchronize(device),
        device=_device_label(device),
        progress=progress,
    )
    measured = tuple(
        replace(
            timed,
            resident_bytes=arms[timed.name].resident_bytes(),
            step_peak_bytes=step_peaks[timed.name],
            facts=arms[timed.name].facts,
        )
        for timed in result.arms
    )
    return replace(result, arms=measured, notes=tuple(notes))


def synchronize(device: torch.device) -> None:
    """Wait until an asynchronous device has done everything that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _device_label(device: torch.device) -> str:
    return f"cuda ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else "cpu"
