"""Initial weights: shared by name across schemes, changed by the seed, sized as stated."""

from __future__ import annotations

import math

import pytest
import torch

from attnres_cli.model.build import build_model
from attnres_cli.model.initialisation import common_weights_hash
from tests.small import RESIDUALS, small_model, small_preset


@pytest.mark.parametrize("residual", RESIDUALS.values(), ids=RESIDUALS.keys())
def test_schemes_share_every_common_weight_bit_for_bit(residual: dict[str, object]) -> None:
    baseline = dict(small_model(dtype=torch.float32).named_parameters())
    model = small_model(residual, dtype=torch.float32)
    for name, parameter in model.named_parameters():
        if not name.startswith("residual."):
            assert torch.equal(parameter, baseline.pop(name)), name
    assert not baseline
    assert common_weights_hash(model, 0) == common_weights_hash(small_model(dtype=torch.float32), 0)


def test_a_deeper_model_keeps_the_draws_of_its_first_blocks() -> None:
    shallow, deep = small_model(), small_model(**{"model.transformer_blocks": 6})
    assert torch.equal(shallow.blocks[1].attention.qkv.weight, deep.blocks[1].attention.qkv.weight)


def test_the_seed_changes_every_drawn_weight() -> None:
    first, second = small_model(dtype=torch.float32), small_model(dtype=torch.float32, **{"train.seed": 1})
    for name, parameter in first.named_parameters():
        if parameter.dim() == 2:
            assert not torch.equal(parameter, second.get_parameter(name)), name
    assert common_weights_hash(first, 0) != common_weights_hash(second, 1)


def test_standard_deviations() -> None:
    model = build_model(
        small_preset(**{"model.d_model": 128, "model.d_ff": 256, "model.num_heads": 4, "model.init_std": 0.05}), 512
    )
    block = model.blocks[2]
    expected = {
        model.embedding.weight: 0.05,
        block.attention.qkv.weight: 0.05,
        block.feed_forward.gate_up.weight: 0.05,
        block.attention.output.weight: 0.05 / math.sqrt(8),
        block.feed_forward.down.weight: 0.05 / math.sqrt(8),
    }
    for weight, std in expected.items():
        # the standard error of a standard deviation over n draws is std / sqrt(2 n): five of them
        assert abs(float(weight.detach().std()) - std) < 5 * std / math.sqrt(2 * weight.numel())


@pytest.mark.parametrize("scheme", ["attnres-full", "attnres-block"])
def test_queries_are_exactly_zero_and_gains_one_after_all_initialisation(scheme: str) -> None:
    model = small_model({"scheme": scheme})
    for name, parameter in model.residual.named_parameters():
        assert torch.equal(parameter, torch.ones_like(parameter) if "gain" in name else torch.zeros_like(parameter)), (
            name
        )


def test_all_norm_gains_are_one() -> None:
    model = small_model()
    gains = [p for n, p in model.named_parameters() if n.endswith("norm.gain")]
    assert len(gains) == 2 * 4 + 1
    assert all(torch.equal(gain, torch.ones_like(gain)) for gain in gains)
