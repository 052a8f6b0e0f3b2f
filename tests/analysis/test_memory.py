"""The estimated peak against a measured one, against an account of saved tensors, and against real optimisers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attnres_cli
from attnres_cli.analysis.carried import carried
from attnres_cli.analysis.memory import MemoryEstimate, estimate_memory, optimiser_state_bytes
from attnres_cli.bench.peak import peak_bytes
from attnres_cli.model.build import build_model
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.preset.reading import Preset
from attnres_cli.train.optimisers import Optimiser
from attnres_cli.train.step import take_step
from tests.small import RESIDUALS, VOCAB_SIZE, small_preset

# What the walk cannot see is scratch memory inside one kernel: a tensor or two of [tokens, d_model], each about 1 % of
# the total at 8 transformer blocks. A kind of tensor that the walk missed would be missing in every block.
TOLERANCE = 0.025
# Large enough for tensors to dwarf bookkeeping: 512 tokens of 64 channels.
SIZES = {
    "model.transformer_blocks": 8,
    "model.d_model": 64,
    "model.num_heads": 4,
    "model.d_ff": 96,
    "model.context_tokens": 128,
    "train.micro_batch_sequences": 4,
    "train.tokens_per_step": 512,
    "train.horizon_tokens": 5120,
}


def estimate(preset: Preset) -> MemoryEstimate:
    return estimate_memory(
        build_model(preset, VOCAB_SIZE, device="meta"),
        micro_batch_sequences=preset.train.micro_batch_sequences,
        context_tokens=preset.model.context_tokens,
        accumulation_steps=preset.accumulation_steps,
        optimizer=preset.train.optimizer,
        autocast_dtype=torch.bfloat16 if preset.train.precision == "bf16" else None,
    )


def step_of(preset: Preset, model: LanguageModel) -> Any:
    optimiser = Optimiser(model, preset)
    shape = (preset.sequences_per_step, preset.model.context_tokens)
    inputs, targets = np.random.default_rng(0).integers(0, VOCAB_SIZE, size=(2, *shape))
    return lambda: take_step(model, model.loss, optimiser, preset, 1, inputs, targets)


ACCUMULATED = {"train.tokens_per_step": 1024}
BF16 = {"train.precision": "bf16"}
CHECKPOINTED = {"train.checkpoint_activations": "block"}


@pytest.mark.parametrize(
    ("residual", "changes"),
    [
        ("prenorm", {}),
        ("full", {}),
        ("blocks of 3", {}),
        ("prenorm", BF16),
        ("blocks of 3", {**BF16, **ACCUMULATED, "model.num_kv_heads": 2}),
        ("prenorm", CHECKPOINTED),
        ("3 blocks", CHECKPOINTED),
        ("full", {**ACCUMULATED, "model.tie_embeddings": False}),
        # Few tokens and many weights: the peak is at the end of the backward pass, where all gradients are there.
        ("prenorm", {"model.context_tokens": 16, "train.tokens_per_step": 64, "model.d_model": 128}),
    ],
)
def test_estimate_equals_the_measured_peak(residual: str, changes: dict[str, Any]) -> None:
    preset = small_preset(RESIDUALS[residual], **{**SIZES, **changes})
    model = build_model(preset, VOCAB_SIZE)
    step = step_of(preset, model)
    step()  # the optimiser's state appears in the first step
    measured = peak_bytes(step, torch.device("cpu"))
    estimated = estimate(preset)
    parts = estimated.parts()
    assert sum(parts.values()) == estimated.total_bytes
    of_the_step = estimated.total_bytes - parts["weights"] - parts["optimiser state"]
    # The real step's token ids live in numpy's memory.
    token_ids = 2 * 8 * preset.train.micro_batch_sequences * preset.model.context_tokens
    assert of_the_step - token_ids == pytest.approx(measured, rel=TOLERANCE)


@pytest.mark.parametrize("residual", ["prenorm", "full", "3 blocks"])
def test_what_autograd_keeps_is_in_the_estimate(residual: str) -> None:
    """An independent account: storages handed to the backward pass of a real forward pass, each once."""
    preset = small_preset(RESIDUALS[residual], **SIZES)
    model = build_model(preset, VOCAB_SIZE)
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    tokens = torch.zeros(4, 128, dtype=torch.int64)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model.loss(tokens, tokens)
    saved = sum(kept.values())
    estimated = estimate(preset)
    held = estimated.activations_bytes + estimated.logits_bytes
    # The backward pass adds the gradients of sources, two tensors of the logits, and what one sublayer works with.
    sources = carried(build_model(preset, VOCAB_SIZE, device="meta")).kept + 1
    added_channels = sources * 64 + 2 * VOCAB_SIZE + 2 * (2 * 96 + 4 * 64)
    assert saved <= held <= saved + 4 * 512 * added_channels
    del loss


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_optimiser_state_is_that_of_the_real_one(optimizer: str) -> None:
    preset = small_preset(RESIDUALS["full"], **SIZES, **{"train.optimizer": optimizer})
    model = build_model(preset, VOCAB_SIZE)
    optimiser = Optimiser(model, preset)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step(1.0)
    real = sum(value.numel() * value.element_size() for value in optimiser.tensors().values() if value.dim() > 0)
    assert optimiser_state_bytes(build_model(preset, VOCAB_SIZE, device="meta"), optimizer) == real


def activations_at(depth: int, residual: dict[str, Any]) -> int:
    preset = small_preset(residual, **{**SIZES, "model.d_model": 256, "model.transformer_blocks": depth})
    return estimate(preset).activations_bytes


def test_full_keeps_no_copies_of_its_sources() -> None:
    """Memory grows linearly with depth; with a stack per sublayer, as in the reference back end, it does not."""
    fast, slow = {"scheme": "attnres-full"}, {"scheme": "attnres-full", "backend": "reference"}
    for residual, is_linear in ((fast, True), (slow, False)):
        small, middle, large = (activations_at(depth, residual) for depth in (4, 8, 12))
        # A quadratic share would show as a growing difference; per-token scalars are one in 256 of a source.
        assert (large - middle < 1.03 * (middle - small)) == is_linear


def test_the_walk_needs_no_compiler() -> None:
    """Meta kernels that import torch's compiler cost seconds; a plan has two."""
    program = (
        "import sys\n"
        "from tests.analysis.test_memory import SIZES, estimate\n"
        "from tests.small import RESIDUALS, small_preset\n"
        "for name in ('prenorm', 'full', '3 blocks'):\n"
        "    for precision in ('fp32', 'bf16'):\n"
        "        estimate(small_preset(RESIDUALS[name], **SIZES, **{'train.precision': precision}))\n"
        "print([name for name in ('torch._dynamo', 'sympy') if name in sys.modules])\n"
    )
    # The test's own imports (optimisers) are part of the process, so the list has to stay empty in spite of them.
    root = Path(attnres_cli.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]", "an operation has no rule in analysis/shapes.py, so PyTorch's own kernel ran"
