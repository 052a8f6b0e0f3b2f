"""The chunked cross-entropy against its definition, with chunks that do not divide the batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils.flop_counter import FlopCounterMode

from attnres_cli.model import cross_entropy
from attnres_cli.model.cross_entropy import IGNORED_TARGET, summed_cross_entropy


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows of 11 logits at a time: the last chunk is cut."""
    monkeypatch.setattr(cross_entropy, "CHUNK_LOGITS", {"cpu": 33})


def inputs(dtype: torch.dtype, rows: int = 10) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, 6, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    weight = (3 * torch.randn(11, 6, generator=generator, dtype=torch.float64)).to(dtype).requires_grad_()
    targets = torch.randint(0, 11, (rows,), generator=generator)
    targets[[0, 4, 5]] = IGNORED_TARGET
    return hidden, weight, targets


@pytest.mark.parametrize("rows", [6, 9, 10])
def test_value_and_gradients(rows: int) -> None:
    hidden, weight, targets = inputs(torch.float64, rows)
    expected = F.cross_entropy(hidden @ weight.T, targets, reduction="sum", ignore_index=IGNORED_TARGET)
    found = summed_cross_entropy(hidden, weight, targets)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=0)
    for a, b in zip(
        torch.autograd.grad(0.3 * found, (hidden, weight)),
        torch.autograd.grad(0.3 * expected, (hidden, weight)),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def test_gradcheck() -> None:
    hidden, weight, targets = inputs(torch.float64)
    assert torch.autograd.gradcheck(lambda h, w: summed_cross_entropy(h, w, targets), (hidden, weight))


def test_only_the_hidden_states_need_a_gradient() -> None:
    hidden, weight, targets = inputs(torch.float64)
    summed_cross_entropy(hidden, weight.detach(), targets).backward()
    assert hidden.grad is not None
    assert weight.grad is None


def test_huge_logits_do_not_overflow() -> None:
    hidden = torch.full((1, 1), 1e4)
    weight = torch.tensor([[1.0], [-1.0]])
    assert float(summed_cross_entropy(hidden, weight, torch.tensor([0]))) == 0.0
    assert float(summed_cross_entropy(hidden, weight, torch.tensor([1]))) == pytest.approx(2e4)


def test_products_in_the_autocast_dtype_and_the_sum_in_float32() -> None:
    hidden, weight, targets = inputs(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = summed_cross_entropy(hidden, weight, targets)
        logits = hidden @ weight.T
    assert logits.dtype is torch.bfloat16
    assert found.dtype is torch.float32
    expected = F.cross_entropy(logits.float(), targets, reduction="sum", ignore_index=IGNORED_TARGET)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
    gradients = torch.autograd.grad(found, (hidden, weight))
    assert {gradient.dtype for gradient in gradients} == {torch.float32}


def test_nothing_counted_is_nothing_lost() -> None:
    hidden, weight, _ = inputs(torch.float64)
    loss = summed_cross_entropy(hidden, weight, torch.full((10,), IGNORED_TARGET))
    loss.backward()
    assert loss.item() == 0.0
    assert not hidden.grad.any()
    assert not weight.grad.any()


def test_the_logits_are_never_kept() -> None:
    """Autograd holds the hidden states' and the matrix's gradients, nothing of the size of the logits (rows ×
    vocabulary)."""
    hidden = torch.zeros(64, 4, requires_grad=True)
    weight = torch.zeros(200, 4, requires_grad=True)
    kept: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        summed_cross_entropy(hidden, weight, torch.zeros(64, dtype=torch.int64))
    assert sorted(kept) == [64 * 4, 200 * 4]


def test_no_gradient_is_computed_where_none_is_wanted() -> None:
    """The logits are the only product then, though the inputs could take a gradient."""
    hidden, weight, targets = inputs(torch.float64)
    logits = 2 * 10 * 11 * 6
    with FlopCounterMode(display=False) as counted:
        expected = summed_cross_entropy(hidden, weight, targets)
    assert counted.get_total_flops() > logits
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        found = summed_cross_entropy(hidden, weight, targets)
    assert counted.get_total_flops() == logits
    assert torch.equal(found, expected)


# ---------------------------------------------------------------------- under torch.compile


def compiled(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    torch._dynamo.reset()
    traced = torch.compile(summed_cross_entropy, backend="aot_eager", fullgraph=True)
    found: torch.Tensor = traced(hidden, weight, targets)
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_compiled_it_is_the_same_to_the_last_bit(dtype: torch.dtype) -> None:
    hidden, weight, targets = inputs(dtype)
    expected, found = (each(hidden, weight, targets) for each in (summed_cross_entropy, compiled))
    assert torch.equal(found, expected)
    for a, b in zip(*(torch.autograd.grad(0.3 * each, (hidden, weight)) for each in (found, expected)), strict=True):
        assert torch.equal(a, b)
    with torch.no_grad():
        assert torch.equal(compiled(hidden, weight, targets), expected)


def test_compiled_the_products_are_in_the_autocast_dtype() -> None:
    hidden, weight, targets = inputs(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected, found = (each(hidden, weight, targets) for each in (summed_cross_entropy, compiled))
    assert torch.equal(found, expected)
    assert not torch.equal(found, summed_cross_entropy(hidden, weight, targets))
    for a, b in zip(*(torch.autograd.grad(each, (hidden, weight)) for each in (found, expected)), strict=True):
        assert torch.equal(a, b)


def test_compiled_no_tensor_is_as_large_as_the_logits() -> None:
    """Of either graph, forward and backward; nor is one kept in between."""
    sizes: list[int] = []

    def inspect(graph: torch.fx.GraphModule, _examples: object) -> Any:
        for node in graph.graph.nodes:
            values = node.meta.get("val")
            for value in values if isinstance(values, list | tuple) else [values]:
                if isinstance(value, torch.Tensor):
                    sizes.append(value.numel())
        return make_boxed_func(graph)

    hidden = torch.zeros(64, 4, requires_grad=True)
    weight = torch.zeros(200, 4, requires_grad=True)
    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=inspect, bw_compiler=inspect)
    loss = torch.compile(summed_cross_entropy, backend=backend, fullgraph=True)
    loss(hidden, weight, torch.zeros(64, dtype=torch.int64)).backward()
    assert max(sizes) == 200 * 4
