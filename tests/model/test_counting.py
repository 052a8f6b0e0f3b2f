"""Structural counts against hand arithmetic and against torch's own FLOP counter."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnres_cli.model.build import build_model
from attnres_cli.model.counting import (
    forward_flops_per_token,
    non_embedding_parameters,
    parameters_by_part,
    training_flops_per_token,
)
from tests.small import RESIDUALS, VOCAB_SIZE, small_model, small_preset, tokens_and_targets


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_by_part(tied: bool) -> None:
    model = small_model({"scheme": "attnres-full"}, **{"model.tie_embeddings": tied, "model.num_kv_heads": 1})
    parts = parameters_by_part(model)
    assert parts == {
        "embedding": VOCAB_SIZE * 16,
        "attention": 4 * (16 * (16 + 8 + 8) + 16 * 16),
        "feed_forward": 4 * 3 * 16 * 24,
        "norms": 9 * 16,
        "head": 0 if tied else VOCAB_SIZE * 16,
        "residual": 2 * 9 * 16,
    }
    assert non_embedding_parameters(model) == sum(parts.values()) - (1 if tied else 2) * VOCAB_SIZE * 16


def test_the_papers_arithmetic_for_added_parameters() -> None:
    """48 transformer blocks of width 150: (96 + 1) · 2 · 150 = 29,100."""
    preset = small_preset(
        {"scheme": "attnres-full"}, **{"model.transformer_blocks": 48, "model.d_model": 150, "model.num_heads": 3}
    )
    assert parameters_by_part(build_model(preset, 10, device="meta"))["residual"] == 29_100


@pytest.mark.parametrize("tied", [True, False])
def test_flops_count_every_matrix_product(tied: bool) -> None:
    """torch counts T keys per query where we count the causal half; the baseline has no other products."""
    length = 12
    model = small_model(dtype=torch.float32, **{"model.tie_embeddings": tied})
    tokens, _ = tokens_and_targets(2, length)
    with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        model(tokens)
    parts = forward_flops_per_token(model, length)
    scores = 4 * 2 * 2 * 16 * length / 2
    assert counter.get_total_flops() / tokens.numel() == sum(parts.values()) + scores
    assert parts["embedding"] == 0
    assert parts["head"] == 2 * VOCAB_SIZE * 16


def test_mixing_is_counted() -> None:
    plain, mixed = (small_model(RESIDUALS[name]) for name in ("prenorm", "full"))
    added = mixed.residual.cost().forward_flops_per_token
    assert added > 0
    assert training_flops_per_token(mixed, 12) == training_flops_per_token(plain, 12) + 3 * added
