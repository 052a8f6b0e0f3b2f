"""The oracle: with zero queries every depth softmax returns the mean, the next norm removes its scale, and AttnRes
IS the baseline. Exact at norm epsilon 0, in logits, in gradients, and over a whole training trajectory with frozen
queries.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.train.optimisers import Optimiser
from attnres_cli.train.step import take_step
from tests.small import RESIDUALS, VOCAB_SIZE, small_model, small_preset, tokens_and_targets

AGREEMENT = 1e-12
ATTNRES = {name: residual for name, residual in RESIDUALS.items() if name != "prenorm"}


def common_gradients(model: LanguageModel) -> dict[str, torch.Tensor]:
    return {
        n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None and not n.startswith("residual.")
    }


@pytest.mark.parametrize("residual", ATTNRES.values(), ids=ATTNRES.keys())
@pytest.mark.parametrize("tied", [True, False])
def test_step_0_is_the_baseline(residual: dict[str, Any], tied: bool) -> None:
    tokens, targets = tokens_and_targets()
    changes = {"model.norm_epsilon": 0.0, "model.tie_embeddings": tied}
    baseline, model = small_model(**changes), small_model(residual, **changes)
    torch.testing.assert_close(model(tokens), baseline(tokens), rtol=AGREEMENT, atol=AGREEMENT)
    baseline.loss(tokens, targets).backward()
    model.loss(tokens, targets).backward()
    expected, found = common_gradients(baseline), common_gradients(model)
    assert expected.keys() == found.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=AGREEMENT, atol=AGREEMENT, msg=name)


def trajectory(
    residual: dict[str, Any], steps: int, accumulation: int, optimizer: str
) -> tuple[list[float], list[dict[str, torch.Tensor]]]:
    """Losses, and gradients and weights of every step, of training with the scheme's own parameters frozen."""
    changes = {
        "model.norm_epsilon": 0.0,
        "train.micro_batch_sequences": 4 // accumulation,
        "train.optimizer": optimizer,
    }
    preset = small_preset(residual, **changes)
    model = small_model(residual, **changes)
    model.residual.requires_grad_(False)
    random = np.random.default_rng(5)
    losses: list[float] = []
    states: list[dict[str, torch.Tensor]] = []

    class Recording(Optimiser):
        """Keeps the gradient of every step before it is used."""

        def step(self, factor: float) -> None:
            states.append({f"gradient of {name}": gradient for name, gradient in common_gradients(model).items()})
            super().step(factor)

    optimiser = Recording(model, preset)
    for step in range(steps):
        inputs, targets = random.integers(0, VOCAB_SIZE, (2, 4, 12))
        losses.append(take_step(model, model.loss, optimiser, preset, step, inputs, targets).loss)
        states[-1] |= {n: p.detach().clone() for n, p in model.named_parameters() if not n.startswith("residual.")}
    return losses, states


@cache
def trajectory_of_the_baseline(steps: int) -> tuple[list[float], list[dict[str, torch.Tensor]]]:
    return trajectory({"scheme": "prenorm"}, steps, 2, "adamw")


@pytest.mark.parametrize(
    "residual", [ATTNRES["full"], ATTNRES["3 blocks"], ATTNRES["blocks of 3"]], ids=["full", "num", "size"]
)
def test_frozen_queries_train_on_the_baselines_trajectory(residual: dict[str, Any]) -> None:
    expected_losses, expected_weights = trajectory_of_the_baseline(60)
    losses, weights = trajectory(residual, 60, 2, "adamw")
    assert max(abs(a - b) for a, b in zip(losses, expected_losses, strict=True)) < AGREEMENT
    for step in (0, 29, 59):
        for name, weight in expected_weights[step].items():
            torch.testing.assert_close(
                weights[step][name], weight, rtol=0, atol=AGREEMENT, msg=f"{name} after step {step + 1}"
            )


def test_accumulation_changes_nothing_but_rounding() -> None:
    whole, _ = trajectory(ATTNRES["full"], 10, 1, "adamw")
    cut, _ = trajectory(ATTNRES["full"], 10, 4, "adamw")
    assert max(abs(a - b) for a, b in zip(whole, cut, strict=True)) < AGREEMENT


def test_a_trained_query_leaves_the_baseline() -> None:
    """The oracle would hold for a scheme that ignores its queries, too; this one may not."""
    tokens, _ = tokens_and_targets()
    baseline = small_model(**{"model.norm_epsilon": 0.0})
    for residual in ATTNRES.values():
        model = small_model(residual, stir=0.1, **{"model.norm_epsilon": 0.0})
        assert (model(tokens) - baseline(tokens)).abs().max() > 1e-4


def test_a_large_norm_epsilon_breaks_the_oracle() -> None:
    """Why epsilon defaults to 1e-12: the mean of n sources is n times smaller than their sum, so epsilon weighs
    unequally."""
    tokens, _ = tokens_and_targets()
    apart = []
    with torch.no_grad():
        for epsilon in (0.0, 1e-12, 1e-9, 1e-6):
            changes = {"model.norm_epsilon": epsilon}
            difference = small_model(ATTNRES["full"], **changes)(tokens) - small_model(**changes)(tokens)
            apart.append(float(difference.abs().max()))
    assert apart[0] < AGREEMENT
    assert apart[1] < 1e-7
    assert apart[2] > 100 * apart[1]
    assert apart[3] > 100 * apart[2]
