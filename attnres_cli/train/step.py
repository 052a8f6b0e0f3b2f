"""One optimiser step: forward and backward over the step's micro-batches, the guard, clipping, the update."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnres_cli.errors import ExitCode, UserError, is_out_of_memory
from attnres_cli.model.cross_entropy import IGNORED_TARGET
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.preset.reading import Preset
from attnres_cli.train.device import autocast
from attnres_cli.train.memory import OptimiserOutOfMemory
from attnres_cli.train.optimisers import Optimiser
from attnres_cli.train.schedule import learning_rate_factor

LossFunction = Callable[[Tensor, Tensor], Tensor]
Array = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class Diverged(Exception):
    """The loss or a gradient is not finite; the update was not made."""


@dataclass(frozen=True)
class StepFigures:
    """loss: mean nats per counted token over the whole step. Gradient norms are taken before clipping; `trunk`
    leaves the residual scheme's own parameters out, so that it compares across schemes."""

    loss: float
    grad_norm: float
    grad_norm_trunk: float
    clipped: bool
    learning_rate: float


def take_step(
    model: LanguageModel,
    loss_function: LossFunction,
    optimiser: Optimiser,
    preset: Preset,
    step: int,
    inputs: Array,
    targets: Array,
) -> StepFigures:
    """The optimiser step number `step` (0-based) on inputs and targets [sequences, T] int64.

    The gradient is that of the mean over all counted tokens of the step, however it is cut into micro-batches. Raises
    Diverged before the update when the loss or the gradient is not finite.
    """
    device = model.embedding.weight.device
    counted = max(1, int((targets != IGNORED_TARGET).sum()))
    total: Tensor | float = 0.0
    size = preset.train.micro_batch_sequences
    for first in range(0, len(inputs), size):
        x = to_device(inputs[first : first + size], device)
        y = to_device(targets[first : first + size], device)
        with autocast(preset.train.precision, device):
            loss = loss_function(x, y) / counted
        torch.autograd.backward(loss)
        total = loss.detach() + total  # in the loss's own precision
    grad_norm, grad_norm_trunk = optimiser.gradient_norms()
    if not (math.isfinite(total) and math.isfinite(grad_norm)):
        raise Diverged(f"loss {float(total)}, gradient norm {float(grad_norm)}")
    clip = preset.train.grad_clip
    clipped = bool(clip and grad_norm > clip)
    if clipped:
        optimiser.scale_gradients(clip / grad_norm)
    factor = learning_rate_factor(preset, step)
    try:
        optimiser.step(factor)
    except (MemoryError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise OptimiserOutOfMemory(str(error)) from error
        raise
    optimiser.zero_grad()
    return StepFigures(
        float(total), float(grad_norm), float(grad_norm_trunk), clipped, factor * preset.train.learning_rate
    )


def to_device(array: Array, device: torch.device) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor


def compiled_loss(model: LanguageModel, preset: Preset, announce: Callable[[str], None]) -> LossFunction:
    """`model.loss`, through torch.compile where `train.compile` asks for it ("auto": on CUDA).

    Under "auto" a compiler that is missing or fails is announced in one sentence and eager mode goes on; under "on"
    it is an error.
    """
    device = model.embedding.weight.device
    wanted = preset.train.compile
    if wanted == "off" or (wanted == "auto" and device.type != "cuda"):
        return model.loss
    compiled = torch.compile(model.loss)
    failed = False

    def loss(x: Tensor, y: Tensor) -> Tensor:
        nonlocal failed
        if failed:
            return model.loss(x, y)
        try:
            return compiled(x, y)
        except torch._dynamo.exc.TorchDynamoException as error:
            reason = str(error).strip().splitlines()[0]
            if wanted == "on":
                raise UserError(
                    f"torch.compile failed: {reason}",
                    where="train.compile",
                    hint="add --set train.compile='\"off\"'",
                    exit_code=ExitCode.UNEXPECTED,
                ) from error
            failed = True
            announce(f"torch.compile failed ({reason}); going on without it.")
            return model.loss(x, y)

    return loss
