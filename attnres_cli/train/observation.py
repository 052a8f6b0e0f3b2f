"""The fixed probe batch, what an observer returns, and how both reach the run directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from attnres_cli import discovery
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.train.checkpoint import write_tensors

PACKAGE = "train.observers"


@dataclass(frozen=True)
class Probe:
    """The first sequences of the validation set, on the model's device; the same at every observation.

    tokens and targets: int64 [sequences, T]. answer_kinds: of the same shape, what kind of question each prediction
    answers, 0 where it answers none that counts; None where the corpus does not say.
    """

    tokens: Tensor
    targets: Tensor
    precision: str
    answer_kinds: Tensor | None = None


@dataclass(frozen=True)
class Observation:
    """arrays: named tensors for the probe file; summary: JSON values that tables read."""

    arrays: dict[str, Tensor] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)


def observe_all(
    run: RunDirectory, model: LanguageModel, probe: Probe, names: tuple[str, ...], step: int, tokens: int
) -> None:
    """Run the named observers and write `probes/step-NNNNNN.safetensors` and one line per observer beside it."""
    found: dict[str, Observation] = {}
    for name in names:
        module = discovery.load(PACKAGE, name, what="observer", where="observe.observers")
        observation = module.observe(model, probe)
        if observation is not None:
            found[name.replace("-", "_")] = observation
    arrays = {f"{name}/{key}": value for name, seen in found.items() for key, value in seen.arrays.items()}
    file = f"step-{step:06d}.safetensors"
    run.probes_folder.mkdir(exist_ok=True)
    write_tensors(run.probes_folder / file, {key: value.detach().cpu().contiguous() for key, value in arrays.items()})
    for name, seen in found.items():
        listing = {
            key: {"file": file, "key": f"{name}/{key}", "shape": list(v.shape)} for key, v in seen.arrays.items()
        }
        run.append_observation(
            {"step": step, "tokens": tokens, "observer": name, "arrays": listing, "summary": seen.summary}
        )


def rms(tensor: Tensor) -> Tensor:
    """Root mean square over everything, in float64: a scalar that depth and width do not bias."""
    return tensor.detach().double().square().mean().sqrt()


def numbers(values: Tensor) -> list[float]:
    return [float(value) for value in np.asarray(values.detach().cpu().double())]
