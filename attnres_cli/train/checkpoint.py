"""Checkpoints: safetensors and JSON with a digest, written beside their place and renamed into it. Nothing is
unpickled.

    checkpoints/step-000100/  model.safetensors  optimizer.safetensors  state.json

The state holds what the next step depends on beside the tensors: the step (which is also the data position, because
batches are a pure function of it), the clock, and torch's generator.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from attnres_cli.errors import UserError
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.files import json_text, naming, read_json
from attnres_cli.train.optimisers import Optimiser

SCHEMA = "attnres.checkpoint/1"
# The one just written and the one before it: a fault in the newest still leaves a good one.
KEPT = 2
FILES = ("model.safetensors", "optimizer.safetensors")


@dataclass(frozen=True)
class Position:
    """How far a run has come. step: finished optimiser steps. train_seconds: time in steps only, over all sessions."""

    step: int
    train_seconds: float


def save(
    run: RunDirectory, model: LanguageModel, optimiser: Optimiser, position: Position, *, keep: Iterable[int] = ()
) -> Path:
    """Write the checkpoint of `position` and remove all but the newest `KEPT` and those of the steps in `keep`;
    returns its folder."""
    target = run.checkpoint_folder(position.step)
    if _is_whole(target):  # resumed and stopped again before a step: the same content is there already
        return target
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        _write(partial, model, optimiser, position)
        if target.exists():  # not whole: nothing is lost by its removal
            shutil.rmtree(target)
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)  # on a full disk: room to say what happened
        raise
    _flush(target.parent)
    kept = {run.checkpoint_folder(step) for step in keep}
    for old in run.checkpoints()[:-KEPT]:
        if old not in kept:
            shutil.rmtree(old)
    return target


def _write(folder: Path, model: LanguageModel, optimiser: Optimiser, position: Position) -> None:
    """The files of a checkpoint. Raises OSError, which names the folder, where they cannot be written."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    moments = {name: tensor.detach().cpu().contiguous() for name, tensor in optimiser.tensors().items()}
    for name, tensors in zip(FILES, (weights, moments), strict=True):
        write_tensors(folder / name, tensors)
    state = {
        "schema": SCHEMA,
        "step": position.step,
        "train_seconds": position.train_seconds,
        "generator": bytes(torch.get_rng_state().numpy()).hex(),
        "digests": {name: _digest(folder / name) for name in FILES},
    }
    with naming(folder / "state.json"):
        (folder / "state.json").write_text(json_text(state) + "\n", encoding="utf-8")
    for path in folder.iterdir():
        _flush(path)


def write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """`save_file`, which tells what the system refused as text only. Raises OSError, which names the file."""
    try:
        save_file(tensors, path)
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def load(folder: Path, model: LanguageModel, optimiser: Optimiser | None = None) -> Position:
    """Restore weights, optimiser and generator from a checkpoint folder into `model` and `optimiser` in place.

    Raises UserError when a file is missing, damaged (its digest differs) or belongs to another model. Without an
    optimiser, its file is not looked at and may be gone.
    """
    state = read_state(folder)
    for name in _damaged(folder, state, FILES if optimiser is not None else FILES[:1]):
        raise UserError(
            f"The checkpoint is damaged: {name} is not the file that was written.",
            where=str(folder),
            hint="remove this folder to resume from the checkpoint before it",
        )
    device = str(model.embedding.weight.device)
    try:
        model.load_state_dict(load_file(folder / "model.safetensors", device=device))
        if optimiser is not None:
            optimiser.load_tensors(load_file(folder / "optimizer.safetensors"))
    except (RuntimeError, KeyError, SafetensorError) as error:
        raise UserError(
            f"The checkpoint does not fit this model: {str(error).splitlines()[0]}", where=str(folder)
        ) from error
    if optimiser is not None:
        torch.set_rng_state(torch.frombuffer(bytearray.fromhex(state["generator"]), dtype=torch.uint8))
    return Position(int(state["step"]), float(state["train_seconds"]))


def read_state(folder: Path) -> dict[str, Any]:
    """state.json of a checkpoint. Raises UserError when it is missing or not what this version writes."""
    try:
        state = read_json(folder / "state.json")
        complete = state["schema"] == SCHEMA and {"step", "train_seconds", "generator", "digests"} <= state.keys()
    except (OSError, ValueError, KeyError, TypeError):
        complete = False
    if not complete:
        raise UserError("This is no complete checkpoint.", where=str(folder), expected=f"state.json of {SCHEMA}")
    return dict(state)


def _is_whole(folder: Path) -> bool:
    try:
        return not _damaged(folder, read_state(folder), FILES)
    except UserError:
        return False


def _damaged(folder: Path, state: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Those of the files that are missing or not what was written."""
    digests = state["digests"]
    return [name for name in names if not (folder / name).is_file() or _digest(folder / name) != digests.get(name)]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """Make a file's content, or a folder's names, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
