"""What every residual scheme must do, over every scheme that is found."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

from attnres_cli.model.counting import parameters_by_part
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.preset.reading import preset_from_dict
from attnres_cli.residual.parameters import Role
from attnres_cli.residual.protocol import Site, State
from attnres_cli.train.optimisers import Optimiser
from attnres_cli.train.step import take_step
from tests.shared_models import shared_model
from tests.small import EVERY, FORMS, SCHEMES, VOCAB_SIZE, WITH_KNOBS, small_model, small_preset, tokens_and_targets

# Where a test takes time with every sublayer, and more of them add nothing: two have all the places that there are.
TWO_BLOCKS = {"model.transformer_blocks": 2}
every_scheme = pytest.mark.parametrize("residual", EVERY.values(), ids=EVERY.keys())


def stir_for(residual: dict[str, Any], stir: float) -> float:
    """How far a scheme's own parameters are moved from what they are at first; with sparsemax only a little, or it
    leaves out most sources, and what hangs on them has no gradient and no effect."""
    return 0.05 if residual.get("normaliser") == "sparsemax" else stir


def stirred(residual: dict[str, Any]) -> LanguageModel:
    """To be looked at by several tests."""
    return shared_model(residual, stir=stir_for(residual, 0.7))


@every_scheme
def test_shapes(residual: dict[str, Any]) -> None:
    model = shared_model(residual)
    for sequences, length in [(1, 1), (3, 12)]:
        tokens, targets = tokens_and_targets(sequences, length)
        assert model(tokens).shape == (sequences, length, VOCAB_SIZE)
        assert model.loss(tokens, targets).shape == ()


@torch.no_grad()
@every_scheme
def test_no_token_sees_a_later_one(residual: dict[str, Any]) -> None:
    model = stirred(residual)
    tokens, _ = tokens_and_targets()
    before = model(tokens)
    for changed in (0, 5, 11):
        other = tokens.clone()
        other[:, changed] = (other[:, changed] + 1) % VOCAB_SIZE
        after = model(other)
        torch.testing.assert_close(after[:, :changed], before[:, :changed], rtol=1e-12, atol=1e-12)
        assert (after[:, changed:] - before[:, changed:]).abs().amin(dim=(0, 2)).min() > 0, changed


@every_scheme
def test_every_parameter_gets_a_gradient(residual: dict[str, Any]) -> None:
    """But those that the scheme declares dead, and all of those; frozen ones are the user's wish."""
    model = small_model(residual, stir=stir_for(residual, 0.3))
    model.loss(*tokens_and_targets()).backward()
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    without = {name for name, p in trained.items() if p.grad is None or not p.grad.any()}
    dead = model.dead_parameters()
    assert dead.keys() <= dict(model.named_parameters()).keys()
    assert without == dead.keys() & trained.keys()


@every_scheme
def test_every_own_parameter_changes_the_output(residual: dict[str, Any]) -> None:
    """Each by itself, in a model of few sublayers: that those of a deeper one have an effect, their gradients say."""
    model = small_model(residual, stir=stir_for(residual, 0.3), **TWO_BLOCKS)
    tokens, _ = tokens_and_targets()
    generator = torch.Generator().manual_seed(17)  # the same number everywhere would be nothing to a softmax
    with torch.no_grad():
        before = model(tokens)
        for name, parameter in model.residual.named_parameters():
            if f"residual.{name}" in model.dead_parameters():
                continue
            kept = parameter.clone()
            parameter += torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            assert (model(tokens) - before).abs().max() > 1e-9, name
            parameter.copy_(kept)


@every_scheme
def test_the_state_is_what_the_scheme_says(residual: dict[str, Any]) -> None:
    model = shared_model(residual)
    lengths: list[int] = []

    class Lengths:
        def sublayer(self, site: Site, before: State, x: Any, output: torch.Tensor, after: State) -> None:
            assert all(isinstance(tensor, torch.Tensor) for tensor in before)
            lengths.append(len(before))

        def close(self, state: State, output: torch.Tensor) -> None:
            lengths.append(len(state))
            elements = sum(tensor.numel() for tensor in state) / 24
            assert elements == model.residual.cost().live_elements_per_token

    with torch.no_grad():
        model.walk(tokens_and_targets()[0], Lengths())
    assert lengths == [len(model.residual.state_spec(ordinal)) for ordinal in range(9)]


@every_scheme
def test_stated_cost_is_counted_cost(residual: dict[str, Any]) -> None:
    model = shared_model(residual)
    assert model.residual.cost().parameters == parameters_by_part(model)["residual"]


@pytest.mark.parametrize(
    ("residual", "consumed"),
    # sources at every site that has more than one: Full 2 + 3 + … + 9; 3 blocks of 2, 2 and 4: 2, 2 | 3, 3 | 4, 4,
    # 4 and 4
    [({"scheme": "attnres-full"}, 44), ({"scheme": "attnres-block", "num_blocks": 3}, 2 + 2 + 3 + 3 + 4 + 4 + 4 + 4)],
)
def test_mixing_flops(residual: dict[str, Any], consumed: int) -> None:
    """A dot product and a multiply-add per source and consumer, 2 d each; the mean square of each of 9 sources, 2 d."""
    flops = small_model(residual).residual.cost().forward_flops_per_token
    assert flops == 4 * 16 * consumed + 2 * 16 * 9


@pytest.mark.parametrize(
    ("residual", "flops"),
    [
        # d = 16, L = 8. Full: 44 sources consumed, at 8 sites; 9 keys formed. r: channels of a key.
        ({"scheme": "attnres-full", "key_norm": False}, 4 * 16 * 44),
        ({"scheme": "attnres-full", "query": "scalars"}, 2 * 16 * 44),
        ({"scheme": "attnres-full", "query": "input"}, 4 * 16 * 44 + 2 * 16 * 9 + 8 * 2 * 16 * 16),
        ({"scheme": "attnres-full", "key_rank": 4}, (2 * 4 + 2 * 16) * 44 + 2 * 4 * 9 + 2 * 4 * 16 * 9),
        ({"scheme": "attnres-full", "key_rank": 4, "key_projection": "sliced"}, (2 * 4 + 2 * 16) * 44 + 2 * 4 * 9),
        ({"scheme": "attnres-full", "final_mix": False}, 4 * 16 * 35 + 2 * 16 * 9),
        # a window of 2: 2, then 3 at the other seven
        ({"scheme": "attnres-full", "window": 2}, 4 * 16 * (2 + 7 * 3) + 2 * 16 * 9),
        ({"scheme": "attnres-multi-head", "num_blocks": 3}, 4 * 16 * 26 + 2 * 16 * 9),
        ({"scheme": "attnres-low-rank", "num_blocks": 3}, (2 * 4 + 2 * 16) * 26 + 2 * 4 * 9 + 2 * 4 * 16 * 9),
        # value routes at sublayers 2, 4, 6 of 2 | 2 | 4: 2, 3 and 4 sources, and a norm each
        ({"scheme": "attnres-role-decoupled", "num_blocks": 3}, 4 * 16 * (26 + 9) + 2 * 16 * 9 + 3 * 4 * 16),
        # updates alone: 2 + … + 8 sources, 8 keys, and the sum with the stream
        ({"scheme": "delta-attnres"}, 4 * 16 * 35 + 2 * 16 * 8 + 16 * 8),
        # blocks of 3, 3 and 2 with a detail each: 2, 2 | 3, 4, 4 | 5, 6 | 7; 12 keys; 8 d per detail
        ({"scheme": "haares", "block_sublayers": 3}, 4 * 16 * 33 + 2 * 16 * 12 + 3 * 8 * 16),
        ({"scheme": "haares", "block_sublayers": 3, "detail": "duplicate"}, 4 * 16 * 33 + 2 * 16 * 12),
        ({"scheme": "dual-attnres", "num_blocks": 3}, 2 * (4 * 16 * 26 + 2 * 16 * 9) + 2 * 16 * 8),
    ],
    ids=str,
)
def test_flops_of_the_family(residual: dict[str, Any], flops: int) -> None:
    assert small_model(residual).residual.cost().forward_flops_per_token == flops


# A scheme that has blocks is traced with blocks of several sublayers; further forms and every knob in the slow lane.
TRACED = [
    pytest.param(residual, id=name, marks=[pytest.mark.slow] if name in FORMS | WITH_KNOBS else [])
    for name, residual in (SCHEMES | WITH_KNOBS).items()
    if f"{name}, blocks of 3" not in SCHEMES
]


@pytest.mark.parametrize("residual", TRACED)
def test_no_graph_break(residual: dict[str, Any]) -> None:
    """Forward and backward are traced in one go. The partitioner is not the subject; this one is the quicker."""
    torch._dynamo.reset()
    model = small_model(residual, dtype=torch.float32, stir=0.3, **TWO_BLOCKS)
    tokens, targets = tokens_and_targets()
    eager = model.loss(tokens, targets)
    compiled = torch.compile(model.loss, backend="aot_eager_default_partitioner", fullgraph=True)(tokens, targets)
    torch.testing.assert_close(compiled, eager, rtol=1e-5, atol=1e-5)
    compiled.backward()
    assert model.embedding.weight.grad is not None


@torch.no_grad()
@every_scheme
def test_equals_at_first_what_it_says(residual: dict[str, Any]) -> None:
    """With shared weights and norm epsilon 0; a scheme that says nothing is not the baseline by accident."""
    exact = {"model.norm_epsilon": 0.0}
    model = small_model(residual, **exact)
    tokens, _ = tokens_and_targets()
    equal = model.residual.equals_at_initialisation
    other = shared_model({"scheme": equal or "prenorm"}, **exact)
    apart = float((model(tokens) - other(tokens)).abs().max())
    if equal is None:
        assert residual["scheme"] == "prenorm" or apart > 1e-9
    else:
        assert apart < 1e-10


@pytest.mark.parametrize("residual", SCHEMES.values(), ids=SCHEMES.keys())
def test_twenty_steps_lower_the_loss_and_equal_ten_and_ten_more(residual: dict[str, Any]) -> None:
    """On one batch, again and again: whatever the scheme, it can be trained. And a model and an optimiser that were put
    away after ten steps and taken out again go on bit for bit."""
    changes = {**TWO_BLOCKS, "train.micro_batch_sequences": 4}
    preset = small_preset(residual, **changes)
    inputs, targets = np.random.default_rng(3).integers(0, VOCAB_SIZE, (2, 4, 12))

    def begun() -> tuple[LanguageModel, Optimiser]:
        model = small_model(residual, dtype=torch.float32, **changes)
        return model, Optimiser(model, preset)

    def losses_of(model: LanguageModel, optimiser: Optimiser, steps: range) -> list[float]:
        return [take_step(model, model.loss, optimiser, preset, step, inputs, targets).loss for step in steps]

    def tensors_of(model: LanguageModel, optimiser: Optimiser) -> list[dict[str, torch.Tensor]]:
        return [{n: t.clone() for n, t in each.items()} for each in (model.state_dict(), optimiser.tensors())]

    model, optimiser = begun()
    losses = losses_of(model, optimiser, range(10))
    weights, moments = tensors_of(model, optimiser)
    losses += losses_of(model, optimiser, range(10, 20))
    assert losses[-1] < losses[0] - 0.05
    other_model, other_optimiser = begun()
    other_model.load_state_dict(weights)
    other_optimiser.load_tensors(moments)
    assert losses_of(other_model, other_optimiser, range(10, 20)) == losses[10:]
    whole, parts = tensors_of(model, optimiser), tensors_of(other_model, other_optimiser)
    for one, other in zip(whole, parts, strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@torch.no_grad()
@every_scheme
def test_a_pickled_model_is_the_same_model(residual: dict[str, Any]) -> None:
    """torch.save of a whole model, and processes that are handed one, need it; so does a deep copy."""
    model = stirred(residual)
    tokens, _ = tokens_and_targets()
    assert torch.equal(pickle.loads(pickle.dumps(model))(tokens), model(tokens))


@every_scheme
def test_state_dict_round_trip(residual: dict[str, Any]) -> None:
    source, target = stirred(residual), small_model(residual, **{"train.seed": 9})
    target.load_state_dict(source.state_dict())
    tokens, _ = tokens_and_targets()
    assert torch.equal(source(tokens), target(tokens))


@every_scheme
def test_own_parameters_but_matrices_take_no_weight_decay(residual: dict[str, Any]) -> None:
    model = shared_model(residual)
    for name, group in model.parameter_groups().items():
        if name.startswith("residual."):
            assert group.weight_decay == (group.role is Role.SCHEME_MATRIX)
            assert group.role not in (Role.EMBEDDING, Role.HEAD, Role.MATRIX)


def test_the_query_learning_rate_factor_reaches_the_groups() -> None:
    model = small_model({"scheme": "attnres-full", "query_lr_factor": 3.0})
    factors = {name.split(".")[0]: g.learning_rate_factor for name, g in model.parameter_groups().items()}
    assert factors["residual"] == 3.0
    assert factors["blocks"] == 1.0


def test_the_depth_is_checked_with_the_preset() -> None:
    from attnres_cli.errors import UserError

    values = small_preset().to_dict()
    values["residual"] = {"scheme": "attnres-block", "num_blocks": 9}
    with pytest.raises(UserError, match="num_blocks = 9 is more than the model's 8 sublayers"):
        preset_from_dict(values, "small")
