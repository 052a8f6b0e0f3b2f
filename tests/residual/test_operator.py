"""Back ends of the depth-attention operator against the reference, over awkward shapes and dtypes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.errors import UserError
from attnres_cli.residual.backends import backend_names, load_backend
from attnres_cli.residual.precision import widen

EPSILON = 1e-12


def drawn(n: int, shape: tuple[int, ...], dtype: torch.dtype, query_size: float = 1.0) -> tuple[list[Tensor], Tensor]:
    """n sources of `shape` and `dtype` whose sizes differ by orders of magnitude, and a wide query of norm
    `query_size`."""
    generator = torch.Generator().manual_seed(n)
    values = [torch.randn(shape, generator=generator, dtype=torch.float64) * 10.0 ** (i % 4 - 2) for i in range(n)]
    query = torch.randn(shape[-1], generator=generator, dtype=torch.float64)
    return [value.to(dtype) for value in values], widen((query_size * query / query.norm()).to(dtype))


def everything(op: Any, values: list[Tensor], query: Tensor) -> list[Tensor]:
    """Output, weights, and the gradients of a fixed functional with respect to every source and the query."""
    values = [value.detach().requires_grad_() for value in values]
    query = query.detach().requires_grad_()
    scales = [op.inverse_rms(value, EPSILON) for value in values]
    mixed = op.mix(values, scales, query)
    cotangent = torch.linspace(-1, 1, mixed.numel(), dtype=mixed.dtype).view_as(mixed)
    gradients = torch.autograd.grad((mixed * cotangent).sum(), [*values, query])
    return [mixed.detach(), op.weights(values, scales, query).detach(), *gradients]


@pytest.mark.parametrize("backend", backend_names())
@pytest.mark.parametrize("n", [1, 2, 3, 33, 65])
@pytest.mark.parametrize("shape", [(1, 1, 8), (2, 5, 7), (1, 3, 33)])
def test_backends_agree_with_the_reference_in_float64(backend: str, n: int, shape: tuple[int, ...]) -> None:
    values, query = drawn(n, shape, torch.float64, query_size=3.0)
    reference = everything(load_backend("reference"), values, query)
    for expected, found in zip(reference, everything(load_backend(backend), values, query), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10 * float(expected.abs().max() + 1e-30))


@pytest.mark.parametrize("backend", backend_names())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("query_size", [1.0, 1e2, 1e4])
def test_rounding_grows_no_faster_than_the_query(backend: str, dtype: torch.dtype, query_size: float) -> None:
    """Sources come as they are, narrow ones, too; the reference gets the same rounded ones in float64. A logit is of
    size |q| √d, so float32 rounding of it is of size |q| √d 2⁻²⁴, and the softmax passes that on as a relative change
    of the weights."""
    shape = (2, 5, 24)
    values, query = drawn(9, shape, dtype, query_size)
    exact = load_backend("reference")
    wide = [value.double() for value in values]
    expected = exact.mix(wide, [exact.inverse_rms(value, EPSILON) for value in wide], query.double())
    op = load_backend(backend)
    found = op.mix(values, [op.inverse_rms(value, EPSILON) for value in values], query)
    assert found.dtype is torch.float32
    size = float(expected.abs().max())
    tolerance = 8 * (1 + query_size * shape[-1] ** 0.5) * 2.0**-24
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("backend", backend_names())
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("n", [1, 3, 9])
def test_gradients_of_narrow_sources(backend: str, dtype: torch.dtype, n: int) -> None:
    """A source's gradient comes in its own dtype from its three uses: mixed, compared, measured. So each of three terms
    is rounded to that dtype once, and two sums are, of which none is larger than the terms' sizes together."""
    values, query = drawn(n, (2, 5, 24), dtype, query_size=3.0)
    found = everything(load_backend(backend), values, query)[2:-1]
    assert {gradient.dtype for gradient in found} == {dtype}
    uses = [[value.double().requires_grad_() for value in values] for _ in range(3)]
    mixed, compared, measured = uses
    exact = load_backend("reference")
    weights = exact.weights(compared, [exact.inverse_rms(value, EPSILON) for value in measured], query.double())
    output = (weights.unsqueeze(-1) * torch.stack(mixed)).sum(0)
    cotangent = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).view_as(output)
    gradients = torch.autograd.grad((output * cotangent).sum(), [leaf for use in uses for leaf in use])
    numbers = torch.finfo(dtype)
    for index, gradient in enumerate(found):
        terms = torch.stack(gradients[index::n])
        # Half the distance of neighbours, for the last bit and below the smallest normal number.
        allowed = 3 * numbers.eps / 2 * (terms.abs().sum(0) + numbers.smallest_normal)
        assert bool(((gradient.double() - terms.sum(0)).abs() <= allowed * (1 + 1e-2)).all())  # float32's rounding


@pytest.mark.parametrize("backend", backend_names())
def test_gradients_in_float64(backend: str) -> None:
    op = load_backend(backend)
    values, query = drawn(4, (1, 2, 5), torch.float64)
    inputs = [tensor.requires_grad_() for tensor in [query, *values]]

    def mixed(query: Tensor, *values: Tensor) -> Tensor:
        return op.mix(values, [op.inverse_rms(value, EPSILON) for value in values], query)

    assert torch.autograd.gradcheck(mixed, inputs)


@pytest.mark.parametrize("backend", backend_names())
def test_non_contiguous_sources(backend: str) -> None:
    op = load_backend(backend)
    values, query = drawn(3, (6, 4, 2), torch.float64)
    views = [value.transpose(0, 2) for value in values]
    query = torch.linspace(-1, 1, 6, dtype=torch.float64)
    for expected, found in zip(
        everything(op, [view.contiguous() for view in views], query), everything(op, views, query), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)


def saved_elements(op: Any, n: int, shape: tuple[int, ...]) -> int:
    """Elements that autograd keeps for n sources mixed at n sites (Full), each storage once."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    values: list[Tensor] = []
    scales: list[Tensor] = []
    held: list[Tensor] = []
    query = torch.zeros(shape[-1], requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        for _ in range(n):
            values.append(torch.randn(shape, requires_grad=True))
            scales.append(op.inverse_rms(values[-1], EPSILON))
            held.append(op.mix(values, scales, query))
    return sum(kept.values())


def test_the_torch_back_end_keeps_no_copy_of_its_sources() -> None:
    """Memory grows linearly with depth: beside the sources themselves only per-token scalars (one per source and
    site)."""
    batch, length, width = shape = (2, 8, 512)
    for n in (8, 16):
        kept = saved_elements(load_backend("torch"), n, shape)
        sources, scalars = n * batch * length * width, 4 * n * n * batch * length
        assert sources <= kept <= sources + scalars + n * width
    assert saved_elements(load_backend("reference"), 8, shape) > 3 * 8 * batch * length * width


def test_autocast_does_not_round_the_logits() -> None:
    op = load_backend("torch")
    values, query = drawn(5, (2, 3, 16), torch.float32, query_size=10.0)
    scales = [op.inverse_rms(value, EPSILON) for value in values]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = op.weights(values, scales, query)
    assert torch.equal(under, op.weights(values, scales, query))


def test_an_unknown_back_end_is_named_with_its_neighbour() -> None:
    with pytest.raises(UserError) as error:
        load_backend("tocrh")
    assert error.value.faults[0].nearest == "torch"
