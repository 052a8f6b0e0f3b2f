"""One step: the exact token-weighted mean under accumulation, clipping, norms."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnres_cli.model.cross_entropy import IGNORED_TARGET
from attnres_cli.train.optimisers import Optimiser
from attnres_cli.train.step import take_step
from tests.small import VOCAB_SIZE, small_model, small_preset

FULL = {"scheme": "attnres-full"}


def ragged() -> tuple[np.ndarray, np.ndarray]:
    """Four sequences whose targets count 16, 1, 5 and 0 times."""
    random = np.random.default_rng(0)
    inputs, targets = random.integers(0, VOCAB_SIZE, (2, 4, 16))
    targets[1, 1:] = targets[2, 5:] = targets[3] = IGNORED_TARGET
    return inputs, targets


def test_the_mean_is_over_tokens_not_over_micro_batches() -> None:
    inputs, targets = ragged()
    model = small_model(FULL)
    logits = model(torch.from_numpy(inputs)).detach().flatten(0, 1)
    flat = torch.from_numpy(targets).flatten()
    counted = flat != IGNORED_TARGET
    expected = -logits.log_softmax(-1)[counted, flat[counted]].mean()
    for size in (1, 2, 4):
        preset = small_preset(FULL, **{"train.micro_batch_sequences": size})
        fresh = small_model(FULL)
        figures = take_step(fresh, fresh.loss, Optimiser(fresh, preset), preset, 0, inputs, targets)
        assert figures.loss == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("clip", [0.0, 0.01, 1e9])
def test_norms_are_taken_before_clipping(clip: float) -> None:
    inputs, targets = ragged()
    preset = small_preset(
        FULL, **{"train.grad_clip": clip, "train.weight_decay": 0.0, "train.micro_batch_sequences": 4}
    )
    model = small_model(FULL, stir=0.5)
    other = small_model(FULL, stir=0.5)
    (other.loss(torch.from_numpy(inputs), torch.from_numpy(targets)) / 22).backward()
    squares = {n: float(p.grad.square().sum()) for n, p in other.named_parameters() if p.grad is not None}
    total = sum(squares.values()) ** 0.5
    trunk = sum(v for n, v in squares.items() if not n.startswith("residual.")) ** 0.5
    seen: dict[str, torch.Tensor] = {}

    class Spy(Optimiser):
        def step(self, factor: float) -> None:
            seen.update({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
            super().step(factor)

    figures = take_step(model, model.loss, Spy(model, preset), preset, 0, inputs, targets)
    assert figures.grad_norm == pytest.approx(total, rel=1e-10)
    assert figures.grad_norm_trunk == pytest.approx(trunk, rel=1e-10)
    assert trunk < total
    assert figures.clipped == (clip == 0.01)
    used = sum(float(g.square().sum()) for g in seen.values()) ** 0.5
    assert used == pytest.approx(0.01 if clip == 0.01 else total, rel=1e-10)


def test_twenty_steps_lower_the_loss_of_every_scheme() -> None:
    inputs, targets = ragged()
    for residual in ({"scheme": "prenorm"}, FULL, {"scheme": "attnres-block"}):
        preset = small_preset(residual)
        model = small_model(residual)
        optimiser = Optimiser(model, preset)
        losses = [take_step(model, model.loss, optimiser, preset, step, inputs, targets).loss for step in range(20)]
        assert losses[-1] < 0.8 * losses[0]
