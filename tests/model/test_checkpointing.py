"""Activation checkpointing: the same numbers, less kept, and every block representation kept once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.model.trunk import LanguageModel
from tests.small import EVERY, RESIDUALS, VOCAB_SIZE, small_model, tokens_and_targets

every_residual = pytest.mark.parametrize("residual", EVERY.values(), ids=EVERY.keys())
CHECKPOINTED = {"train.checkpoint_activations": "block"}


def gradients(model: LanguageModel) -> dict[str, Tensor]:
    model.loss(*tokens_and_targets()).backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def kept_for_backward(model: LanguageModel) -> dict[int, int]:
    """Elements of every storage that a forward pass keeps, parameters and tables left out."""
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and tensor.is_floating_point():
            kept[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model.loss(*tokens_and_targets(2, 16))
    loss.backward()
    return kept


@every_residual
def test_the_numbers_are_the_same(residual: dict[str, Any]) -> None:
    plain = small_model(residual, stir=0.7)
    checkpointed = small_model(residual, stir=0.7, **CHECKPOINTED)
    assert checkpointed.recompute_segments
    assert not plain.recompute_segments
    expected, found = gradients(plain), gradients(checkpointed)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-13, msg=name)


@pytest.mark.parametrize("name", ["prenorm", "full", "3 blocks"])
def test_no_sublayer_keeps_anything(name: str) -> None:
    """What is left: what segments begin with (of tokens × d each, and a number per token), the head's part of the
    loss, and the embedding."""
    model = small_model(RESIDUALS[name], **CHECKPOINTED)
    tokens, width = 32, 16
    representations = len(model.residual.state_spec(8)) // 2 if name != "prenorm" else len(model.residual.segments())
    plain = sum(kept_for_backward(small_model(RESIDUALS[name])).values())
    kept = sum(kept_for_backward(model).values())
    head = VOCAB_SIZE * width + 4 * tokens * width
    assert kept <= representations * tokens * (width + 1) + 8 * tokens * 9 + head
    assert kept < plain / 3


def test_a_block_representation_is_kept_once() -> None:
    """Every later segment begins with all finished blocks: the same storages, not copies."""
    model = small_model({"scheme": "attnres-block", "num_blocks": 4}, dtype=torch.float32, **CHECKPOINTED)
    assert [tuple(segment) for segment in model.residual.segments()] == [(0, 2), (2, 4), (4, 6), (6, 8)]
    rows = 32 * 16
    # embedding and four block sums; the normed output and two tensors of the head's loss have the same size
    assert sum(1 for elements in kept_for_backward(model).values() if elements == rows) <= 5 + 3


@pytest.mark.parametrize("scheme", ["prenorm", "attnres-block"])
def test_it_compiles(scheme: str) -> None:
    torch._dynamo.reset()
    model = small_model(
        {"scheme": scheme}, dtype=torch.float32, stir=0.3, **CHECKPOINTED, **{"model.transformer_blocks": 2}
    )
    tokens, targets = tokens_and_targets()
    eager = model.loss(tokens, targets)
    compiled = torch.compile(model.loss, backend="aot_eager", fullgraph=True)(tokens, targets)
    torch.testing.assert_close(compiled, eager, rtol=1e-5, atol=1e-5)
    compiled.backward()
    assert model.embedding.weight.grad is not None
