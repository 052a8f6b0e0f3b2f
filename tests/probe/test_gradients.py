"""Gradients against the model's own backward pass and against finite differences."""

from __future__ import annotations

import math

import pytest
import torch

from attnres_cli.probe.probes import gradients
from tests.probe.walked import SCHEMES, all_tokens, subject


def norm(tensors: list[torch.Tensor | None]) -> float:
    return math.sqrt(sum(float(x) ** 2 for tensor in tensors if tensor is not None for x in tensor.flatten()))


@pytest.mark.parametrize("name", SCHEMES)
def test_by_block_and_by_kind(name: str) -> None:
    seen = subject(name)
    model = seen.model
    found = gradients.measure(seen)
    assert all(parameter.grad is None for parameter in model.parameters())
    tokens, targets = all_tokens(seen)
    (model.loss(tokens, targets) / targets.numel()).backward()
    per_block = [norm([p.grad for p in block.parameters()]) for block in model.blocks]
    assert found.arrays["parameter_grad_norm"].tolist() == pytest.approx(per_block, rel=1e-9)
    attention = [block.attention for block in model.blocks]
    feed_forward = [block.feed_forward for block in model.blocks]
    rows, width = model.config.d_model, feed_forward[0].d_ff
    expected = {
        "query": [each.qkv.weight.grad[:rows] for each in attention],
        "key": [each.qkv.weight.grad[rows : 2 * rows] for each in attention],
        "value": [each.qkv.weight.grad[2 * rows :] for each in attention],
        "output": [each.output.weight.grad for each in attention],
        "gate": [each.gate_up.weight.grad[:width] for each in feed_forward],
        "up": [each.gate_up.weight.grad[width:] for each in feed_forward],
        "down": [each.down.weight.grad for each in feed_forward],
        "embedding": [model.embedding.weight.grad],
    }
    by_kind = found.summary["grad_norm_by_kind"]
    for kind, tensors in expected.items():
        assert by_kind[kind] == pytest.approx(norm(tensors), rel=1e-9), kind
    whole = norm([parameter.grad for parameter in model.parameters()])
    assert math.sqrt(sum(value**2 for value in by_kind.values())) == pytest.approx(whole, rel=1e-9)
    assert found.summary["spread_max_over_min"]["parameter"] == pytest.approx(max(per_block) / min(per_block))
    mean = sum(per_block) / 4
    deviation = math.sqrt(sum((each - mean) ** 2 for each in per_block) / 4)
    assert found.summary["coefficient_of_variation"]["parameter"] == pytest.approx(deviation / mean)


def test_the_streams_gradient_by_finite_differences() -> None:
    """Of PreNorm after block 1: the loss is a function of the stream, moved along each of its numbers in turn."""
    seen = subject("prenorm", sequences=1)
    model, (tokens, targets) = seen.model, all_tokens(seen)
    with torch.no_grad():
        stream = model.states(tokens)[4][0]

        def loss(at: torch.Tensor) -> float:
            closed = model.resume((at,), 4)
            logits = closed @ model.head_weight.t()
            return float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()))

        squares = 0.0
        for index in range(stream.numel()):
            step = torch.zeros_like(stream).flatten()
            step[index] = 1e-5
            step = step.view_as(stream)
            squares += ((loss(stream + step) - loss(stream - step)) / 2e-5) ** 2
    assert gradients.measure(seen).arrays["activation_grad_norm"][1] == pytest.approx(math.sqrt(squares), rel=1e-5)


def test_batches_do_not_matter() -> None:
    """All batches together are one mean loss and one vector of activations."""
    several, one = subject("3 blocks", sequences=4), subject("3 blocks", sequences=4)
    together = type(one)(one.model, (all_tokens(one),), "fp32")
    for key, array in gradients.measure(several).arrays.items():
        assert array.tolist() == pytest.approx(gradients.measure(together).arrays[key].tolist(), rel=1e-10)
