"""The slow lane, `make test-slow`: every scheme 48 transformer blocks deep, and through the real compiler."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnres_cli.model.build import build_model
from attnres_cli.preset.reading import load_preset
from attnres_cli.residual.registry import scheme_keys, scheme_names
from attnres_cli.train.optimisers import Optimiser
from attnres_cli.train.step import take_step
from tests.small import small_model, tokens_and_targets

pytestmark = pytest.mark.slow
every_scheme = pytest.mark.parametrize("scheme", scheme_names())
STEPS = 50


def batches() -> Any:
    """Bytes of real text, [steps, sequences, context + 1]."""
    text = np.frombuffer(Path(argparse.__file__).read_bytes(), dtype=np.uint8).astype(np.int64)
    generator = np.random.default_rng(0)
    starts = generator.integers(0, len(text) - 65, (STEPS, 8))
    return text[starts[..., None] + np.arange(65)]


@every_scheme
def test_48_transformer_blocks_train_50_steps(scheme: str) -> None:
    """At cpu-tiny's width and learning rate: no value that is not finite (`take_step` stops at one), and the loss
    falls; little, for some, whose rate for two blocks is not one for 48."""
    sets = ["model.transformer_blocks=48", "model.context_tokens=64", "data.tokenizer='bytes'"]
    sets += ["train.tokens_per_step=512", "train.micro_batch_sequences=8", f"train.horizon_tokens={512 * STEPS}"]
    preset = load_preset("cpu-tiny", residual=scheme, sets=sets)
    model = build_model(preset, 256)
    optimiser = Optimiser(model, preset)
    losses = []
    for step, batch in enumerate(batches()):
        done = take_step(model, model.loss, optimiser, preset, step, batch[:, :-1], batch[:, 1:])
        losses.append(done.loss)
        assert math.isfinite(done.loss), step
        assert math.isfinite(done.grad_norm), step
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
    assert np.mean(losses[-5:]) < losses[0] - 0.5


@every_scheme
def test_inductor_gives_the_same_numbers(scheme: str) -> None:
    torch._dynamo.reset()
    """In float64, where rounding explains nothing; blocks of several sublayers where a scheme has them."""
    blocks = {"block_sublayers": 3} if "block_sublayers" in scheme_keys(scheme) else {}
    model = small_model({"scheme": scheme, **blocks}, stir=0.3, **{"model.transformer_blocks": 2})
    tokens, targets = tokens_and_targets()
    eager = model.loss(tokens, targets)
    eager.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    compiled = torch.compile(model.loss, fullgraph=True)(tokens, targets)
    compiled.backward()
    torch.testing.assert_close(compiled, eager, rtol=1e-12, atol=0)
    for name, gradient in expected.items():
        found = model.get_parameter(name).grad
        assert found is not None
        torch.testing.assert_close(found, gradient, rtol=0, atol=1e-10 * float(gradient.abs().max()), msg=name)
