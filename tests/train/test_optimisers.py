"""Optimiser groups by role; Muon on the matrices inside a fused parameter."""

from __future__ import annotations

import pytest
import torch

from attnres_cli.model.build import build_model
from attnres_cli.train.optimisers import MUON_MOMENTUM, Optimiser
from attnres_cli.train.schedule import learning_rate_factor
from tests.small import EVERY, VOCAB_SIZE, small_model, small_preset, tokens_and_targets


def stepped(
    optimizer: str, gradient: float, **changes: object
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Weights before and after one step in which every gradient entry is `gradient`."""
    changes = {"train.optimizer": optimizer, "train.warmup_fraction": 0.0, **changes}
    model = small_model({"scheme": "attnres-full"}, stir=0.5, **changes)
    optimiser = Optimiser(model, small_preset({"scheme": "attnres-full"}, **changes))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, gradient)
    optimiser.step(1.0)
    return before, {name: p.detach() for name, p in model.named_parameters()}


def test_weight_decay_falls_on_matrices_and_embeddings_only() -> None:
    before, after = stepped("adamw", 0.0, **{"train.learning_rate": 0.1, "train.weight_decay": 0.5})
    for name, weight in before.items():
        decays = name.endswith("weight")
        expected = weight * (1 - 0.1 * 0.5) if decays else weight
        torch.testing.assert_close(after[name], expected, rtol=1e-12, atol=0, msg=name)


def test_the_query_factor_scales_the_querys_step() -> None:
    lr = {"train.learning_rate": 0.01}
    changes = {"train.warmup_fraction": 0.0, **lr}
    residual = {"scheme": "attnres-full", "query_lr_factor": 5.0}
    model = small_model(residual, **changes)
    optimiser = Optimiser(model, small_preset(residual, **changes))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    gain = model.final_norm.gain.detach().clone()
    optimiser.step(0.5)
    # the first AdamW step moves every entry by the learning rate, against the sign of its gradient
    torch.testing.assert_close(model.final_norm.gain.detach(), gain - 0.5 * 0.01, rtol=1e-6, atol=0)
    torch.testing.assert_close(
        model.residual.output.query.detach(), torch.full((16,), -5 * 0.5 * 0.01).double(), rtol=1e-6, atol=0
    )


def test_muon_orthogonalises_q_k_and_v_apart() -> None:
    """One step equals torch's Muon on three separate matrices, and the rest moves by AdamW."""
    changes = {
        "train.optimizer": "muon",
        "train.weight_decay": 0.0,
        "train.muon_learning_rate": 0.03,
        "model.num_kv_heads": 1,
    }
    model = small_model(**changes)
    optimiser = Optimiser(model, small_preset(**changes))
    model.loss(*tokens_and_targets()).backward()
    qkv = model.blocks[1].attention.qkv.weight
    apart = [torch.nn.Parameter(rows.clone()) for rows in qkv.detach().split((16, 8, 8))]
    for parameter, gradient in zip(apart, qkv.grad.split((16, 8, 8)), strict=True):
        parameter.grad = gradient.clone()
    torch.optim.Muon(apart, lr=0.03, weight_decay=0.0, momentum=MUON_MOMENTUM, adjust_lr_fn="match_rms_adamw").step()
    embedding = model.embedding.weight.detach().clone()
    optimiser.step(1.0)
    torch.testing.assert_close(qkv.detach(), torch.cat([p.detach() for p in apart]), rtol=1e-12, atol=1e-14)
    assert float((model.embedding.weight.detach() - embedding).abs().max()) == pytest.approx(0.01, rel=1e-4)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_state_round_trip(optimizer: str) -> None:
    changes = {"train.optimizer": optimizer}
    preset = small_preset({"scheme": "attnres-full"}, **changes)
    tokens, targets = tokens_and_targets()

    def trained(model: torch.nn.Module, optimiser: Optimiser, steps: range) -> None:
        for step in steps:
            model.loss(tokens, targets).backward()
            optimiser.step(learning_rate_factor(preset, step))
            optimiser.zero_grad()

    first = small_model({"scheme": "attnres-full"}, **changes)
    one = Optimiser(first, preset)
    trained(first, one, range(3))
    second = small_model({"scheme": "attnres-full"}, **changes)
    second.load_state_dict(first.state_dict())
    two = Optimiser(second, preset)
    two.load_tensors({name: tensor.clone() for name, tensor in one.tensors().items()})
    trained(first, one, range(3, 6))
    trained(second, two, range(3, 6))
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, second.get_parameter(name)), name


# Muon is for matrices alone: AdamW has the rest, so that both are asked of every scheme.
@pytest.mark.parametrize(
    ("optimizer", "residual"),
    [pytest.param("muon", each, id=name) for name, each in EVERY.items()]
    + [pytest.param("adamw", {"scheme": "attnres-full"}, id="adamw alone")],
)
def test_shapes_on_the_meta_device(optimizer: str, residual: dict[str, object]) -> None:
    """Forward, backward and a step; two transformer blocks have all the places that there are."""
    preset = small_preset(residual, **{"train.optimizer": optimizer, "model.transformer_blocks": 2})
    model = build_model(preset, VOCAB_SIZE, device="meta")
    optimiser = Optimiser(model, preset)
    for group in optimiser._muon.param_groups if optimiser._muon else ():
        group["ns_steps"] = 1  # the others have the same shapes, and are most of what this takes
    tokens = torch.zeros(2, 16, dtype=torch.int64, device="meta")
    model.loss(tokens, tokens).backward()
    optimiser.step(1.0)
    assert all(tensor.is_meta or tensor.dim() == 0 for tensor in optimiser.tensors().values())
