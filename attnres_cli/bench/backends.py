"""Which back ends an operator bench times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from attnres_cli.bench.calibrate import free_bytes
from attnres_cli.bench.presets import common_device
from attnres_cli.bench.traffic import computed_dtype, count_traffic
from attnres_cli.model.build import build_model
from attnres_cli.preset.reading import Preset
from attnres_cli.residual.backends import backend_names, choose_backend, load_backend

# The definition: it stacks its sources anew at every site, and autograd keeps the stacks.
STACKING = "reference"
# Copies of everything that a pass reads: the stack, its normalised form, its products with query and weights.
STACKED_COPIES = 4
# The residual path has no use for a vocabulary.
VOCAB_SIZE = 16


@dataclass(frozen=True)
class Backends:
    """names: those that are timed. left_out: the others, each with the reason."""

    names: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def usable_backends(presets: Mapping[str, Preset], wanted: str | None) -> Backends:
    """Every back end that works on the arms' device, or the one that is wanted ("auto": the one that a run would take).

    Raises UserError where the wanted one does not work.
    """
    device = common_device(presets)
    if wanted is not None:
        return Backends((choose_backend(wanted, device.type).op.NAME,))
    usable, left_out = [], []
    for name in backend_names():
        reason = load_backend(name).unusable(device)
        if reason is None and name == STACKING:
            reason = _too_large_to_stack(presets, device)
        if reason is None:
            usable.append(name)
        else:
            left_out.append(f"{name}: {reason}")
    return Backends(tuple(usable), tuple(left_out))


def without_choice(preset: Preset) -> Preset:
    """The preset with the back end left open: one that was asked for may not work on the meta device."""
    return preset.replace({"residual.backend": None}) if hasattr(preset.residual, "backend") else preset


def _too_large_to_stack(presets: Mapping[str, Preset], device: torch.device) -> str | None:
    free = free_bytes(device)
    needed = 0
    for preset in presets.values():
        model = build_model(without_choice(preset), VOCAB_SIZE, device="meta")
        tokens = preset.train.micro_batch_sequences * preset.model.context_tokens
        traffic = count_traffic(model, tokens, computed_dtype(preset.train.precision))
        needed = max(needed, STACKED_COPIES * traffic.forward_bytes)
    if free is None or needed <= free / 2:
        return None
    return (
        f"it needs about {needed / 2**30:.0f} GiB, and {free / 2**30:.0f} GiB are free (--backend {STACKING} insists)"
    )
