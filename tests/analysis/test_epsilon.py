"""The smallest mean square that a norm meets, on models where it is known."""

from __future__ import annotations

import pytest
import torch

from attnres_cli.analysis.epsilon import smallest_mean_square
from tests.small import RESIDUALS, small_model, tokens_and_targets


def silenced(residual: str) -> tuple[torch.nn.Module, torch.Tensor, float]:
    """A model whose sublayers give zero, tokens, and the smallest mean square of their embeddings."""
    model = small_model(RESIDUALS[residual])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("output.weight", "down.weight")):
                parameter.zero_()
    tokens, _ = tokens_and_targets()
    return model, tokens, model.embedding(tokens).square().mean(-1).min().item()


def test_a_plain_stream_that_nothing_is_added_to() -> None:
    model, tokens, smallest = silenced("prenorm")
    assert smallest_mean_square(model, tokens) == pytest.approx(smallest, rel=1e-6)


def test_silent_sources_count() -> None:
    model, tokens, _ = silenced("full")
    assert smallest_mean_square(model, tokens) == 0.0


def test_hooks_are_taken_away_again() -> None:
    model, tokens, _ = silenced("3 blocks")
    smallest_mean_square(model, tokens)
    assert not any(module._forward_pre_hooks for module in model.modules())
