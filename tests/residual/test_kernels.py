"""The kernels of the CPU's back ends against the reference, in float64 and with a tolerance that follows from rounding.

The reference gets the same rounded sources. Each check goes through a whole site and back: mixing, norm, the norm's
backward pass, and the gradient that every source gathers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnres_cli.residual.backends import load_backend
from attnres_cli.residual.operator import Consumer, Kernels
from attnres_cli.residual.ops import reference
from attnres_cli.residual.precision import widen

CPU = torch.device("cpu")
NARROW = (torch.float32, torch.bfloat16, torch.float16)
every_kernel = pytest.mark.parametrize("backend", ["cpu", "torch"])


def kernels_of(backend: str) -> Kernels:
    op = load_backend(backend)
    reason = op.unusable(CPU)
    if reason is not None:
        pytest.skip(reason)
    assert op.kernels is not None
    return op.kernels


class Inputs(NamedTuple):
    values: list[Tensor]
    update: Tensor | None
    query: Tensor
    gain: Tensor
    grad: Tensor
    epsilon: float


def drawn(
    n: int, tokens: int, width: int, dtypes: Sequence[torch.dtype], *, query_size: float = 1.0, update: bool = False,
    zero_gains: bool = False, epsilon: float = 1e-12,
) -> Inputs:  # fmt: skip
    """n sources whose sizes differ by orders of magnitude, of `dtypes` in turn; queries and gains are wide."""
    generator = torch.Generator().manual_seed(n + 1000 * tokens + width)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    values = [(normal(tokens, width) * 10.0 ** (i % 4 - 2)).to(dtypes[i % len(dtypes)]) for i in range(n)]
    wide = widen(values[0]).dtype
    query, gain = normal(width), 1 + 0.3 * normal(width)
    if zero_gains:
        gain[::3] = 0
        gain[1::3] *= 1e-20
    return Inputs(
        values, normal(tokens, width).to(dtypes[0]) if update else None, (query_size * query / query.norm()).to(wide),
        gain.to(wide), normal(tokens, width).to(wide), epsilon,
    )  # fmt: skip


class Results(NamedTuple):
    output: Tensor
    weights: Tensor
    grad_values: list[Tensor]
    grad_query: Tensor
    grad_gain: Tensor
    # How large a source's gradient is before the norm's backward pass takes out what is along the mixture.
    uncancelled: float = 0.0


def by_kernels(kernels: Kernels, x: Inputs) -> Results:
    *finished, newest = x.values
    scales = [reference.inverse_rms(widen(value), x.epsilon) for value in finished]
    wide = x.gain.dtype
    site = kernels.site(finished, scales, newest, x.update, x.query, x.gain, x.epsilon, wide, None, True)
    grad_mixed, dot, grad_gain = kernels.norm_backward(x.grad, site.normed, x.gain, x.epsilon, None)
    sources, scales = [*finished, site.value], [*scales, site.scale]
    consumers = [
        [Consumer(grad_mixed, dot, x.query, site.log_total, site.logits, column)] for column in range(len(sources))
    ]
    grads, grad_query = kernels.source_backward(sources, scales, consumers, None)
    weights = torch.exp(site.logits - site.log_total.unsqueeze(1)).T
    return Results(site.normed.output, weights, list(grads), grad_query[0], grad_gain)


def by_reference(x: Inputs) -> Results:
    values = [value.double() for value in x.values]
    if x.update is not None:
        values[-1] = values[-1] + x.update.double()
    leaves = [tensor.requires_grad_() for tensor in (*values, x.query.double(), x.gain.double())]
    *values, query, gain = leaves
    scales = [reference.inverse_rms(value, x.epsilon) for value in values]
    mixed = reference.mix(values, scales, query)
    rho = reference.inverse_rms(mixed, x.epsilon).unsqueeze(1)
    output = mixed * rho * gain
    *grads, grad_query, grad_gain = torch.autograd.grad(output, leaves, x.grad.double())
    uncancelled = float((x.grad * gain * rho).detach().abs().max())
    weights = reference.weights(values, scales, query).detach()
    return Results(output.detach(), weights, grads, grad_query, grad_gain, uncancelled)


def assert_equal(found: Results, exact: Results, tolerance: float) -> None:
    """To within `tolerance` of the largest value of each kind."""

    def near(one: Tensor, other: Tensor, size: float) -> None:
        torch.testing.assert_close(one.double(), other, rtol=0, atol=tolerance * size + 1e-300)

    near(found.output, exact.output, float(exact.output.abs().max()))
    near(found.weights, exact.weights, 1.0)
    near(found.grad_gain, exact.grad_gain, float(exact.grad_gain.abs().max()))
    largest = max(exact.uncancelled, *(float(grad.abs().max()) for grad in exact.grad_values))
    for one, other in zip(found.grad_values, exact.grad_values, strict=True):
        near(one, other, largest)
    # A query's gradient is a sum over sources and tokens in which large terms cancel; one source's cancel wholly.
    tokens, width = exact.output.shape
    near(found.grad_query, exact.grad_query, largest * width**0.5 * tokens * 100)


@every_kernel
@pytest.mark.parametrize(
    ("n", "tokens", "width"),
    [
        (1, 1, 8), (1, 70, 100), (2, 5, 7), (2, 1, 33), (3, 33, 33), (3, 5, 100), (33, 5, 7), (33, 33, 8), (65, 5, 33),
        (129, 1, 7),
    ],
)  # fmt: skip
@pytest.mark.parametrize("variant", ["plain", "update", "zero gains", "large epsilon"])
def test_a_site_and_back_in_float64(backend: str, n: int, tokens: int, width: int, variant: str) -> None:
    x = drawn(
        n, tokens, width, [torch.float64], query_size=3.0, update=variant == "update",
        zero_gains=variant == "zero gains", epsilon=0.3 if variant == "large epsilon" else 1e-12,
    )  # fmt: skip
    assert_equal(by_kernels(kernels_of(backend), x), by_reference(x), 1e-11)


@every_kernel
@pytest.mark.parametrize(
    "dtypes", [[dtype] for dtype in NARROW] + [list(NARROW)], ids=lambda d: str(len(d)) + str(d[0])
)
@pytest.mark.parametrize("query_size", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("update", [False, True])
def test_rounding_grows_no_faster_than_the_query(
    backend: str, dtypes: list[torch.dtype], query_size: float, update: bool
) -> None:
    """A logit is of size |q| √d, its float32 rounding |q| √d 2⁻²⁴, and the softmax passes that on.

    The norm that follows divides by the mixture, which may be small: hence the factor of the sources' spread.
    """
    width = 40
    x = drawn(9, 6, width, dtypes, query_size=query_size, update=update)
    spread = 100
    tolerance = spread * (1 + query_size * width**0.5) * 2.0**-24
    exact = by_reference(x)
    found = by_kernels(kernels_of(backend), x)
    assert found.output.dtype is torch.float32
    if tolerance < 0.1:
        assert_equal(found, exact, tolerance)
    else:  # a weight may be off by all there is; it is still a weight
        torch.testing.assert_close(found.weights.sum(0), torch.ones(6), rtol=1e-5, atol=0)


@every_kernel
@settings(max_examples=40)
@given(data=st.data())
def test_any_shape(backend: str, data: st.DataObject) -> None:
    n, tokens, width = (data.draw(st.integers(1, most)) for most in (20, 40, 70))
    x = drawn(n, tokens, width, [torch.float64], update=data.draw(st.booleans()))
    assert_equal(by_kernels(kernels_of(backend), x), by_reference(x), 1e-10)


@every_kernel
@pytest.mark.parametrize("dtype", NARROW)
def test_only_the_output_is_narrow(backend: str, dtype: torch.dtype) -> None:
    x = drawn(3, 5, 33, [torch.float32])
    *finished, newest = x.values
    scales = [reference.inverse_rms(value, x.epsilon) for value in finished]
    wide, narrow = (
        kernels_of(backend).site(finished, scales, newest, None, x.query, x.gain, x.epsilon, each, None, True).normed
        for each in (torch.float32, dtype)
    )
    assert narrow.output.dtype is dtype
    assert torch.equal(narrow.output, wide.output.to(dtype))


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("tokens", "width"), [(1, 7), (33, 40)])
@pytest.mark.parametrize("small_gains", [False, True])
@pytest.mark.parametrize("updated", [False, True])
def test_the_plain_residual_and_back(
    backend: str, dtype: torch.dtype, tokens: int, width: int, small_gains: bool, updated: bool
) -> None:
    x = drawn(1, tokens, width, [dtype], update=updated, zero_gains=small_gains, epsilon=1e-3)
    carry = drawn(2, tokens, width, [dtype]).values[1]
    kernels = kernels_of(backend)
    stream, normed = kernels.add_norm(x.values[0], x.update, x.gain, x.epsilon, dtype, True)
    grad, dot, grad_gain = kernels.norm_backward(x.grad, normed, x.gain, x.epsilon, carry)
    total = x.values[0].double() + (0 if x.update is None else x.update.double())
    leaves = total.requires_grad_(), x.gain.double().requires_grad_()
    output = leaves[0] * reference.inverse_rms(leaves[0], x.epsilon).unsqueeze(1) * leaves[1]
    exact, exact_gain = torch.autograd.grad(output, leaves, x.grad.double())
    tolerance = {"rtol": 1e-11, "atol": 1e-11} if dtype is torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(stream.double(), total.detach(), **tolerance)
    torch.testing.assert_close(normed.output.double(), output.detach(), **tolerance)
    torch.testing.assert_close(grad.double(), exact + carry.double(), **tolerance)
    torch.testing.assert_close(grad_gain.double(), exact_gain, **tolerance)
    torch.testing.assert_close(dot.double(), (exact * total.detach()).sum(1), **tolerance)


@pytest.mark.parametrize(("n", "tokens", "width"), [(1, 1, 8), (4, 5, 7), (21, 33, 100)])
@pytest.mark.parametrize("group", [1, 2, 7])
def test_two_phases_equal_one(n: int, tokens: int, width: int, group: int) -> None:
    x = drawn(n + 3, tokens, width, [torch.float64], query_size=4.0)
    kernels = kernels_of("cpu")
    *finished, newest = x.values
    scales = [reference.inverse_rms(value, x.epsilon) for value in finished]
    queries = torch.stack([x.query * (1 + which) for which in range(group)])
    ahead = kernels.look_ahead(finished[:n], scales[:n], queries)
    for which in range(group):
        rest = newest, None, queries[which], x.gain, x.epsilon, torch.float64
        merged = kernels.site(finished[n:], scales[n:], *rest, ahead.query(which), True)
        direct = kernels.site(finished, scales, *rest, None, True)
        torch.testing.assert_close(merged.normed.output, direct.normed.output, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(merged.log_total, direct.log_total, rtol=1e-12, atol=1e-12)
        logits = torch.cat([ahead.query(which).logits, merged.logits], 1)
        torch.testing.assert_close(logits, direct.logits, rtol=1e-12, atol=1e-12)


def test_gradients_do_not_depend_on_the_number_of_threads() -> None:
    kernels = kernels_of("cpu")
    x = drawn(5, 700, 33, [torch.float32])
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 2):
            torch.set_num_threads(count)
            site = kernels.site([], [], x.values[0], None, x.query, x.gain, x.epsilon, torch.float32, None, True)
            found.append([site.normed.output, *kernels.norm_backward(x.grad, site.normed, x.gain, x.epsilon, None)])
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


def test_the_shapes_without_data() -> None:
    """The meta kernels, which `plan` walks through, against what the C++ gives."""
    x = drawn(4, 6, 33, [torch.float32], update=True)

    def everything(device: str) -> list[Tensor]:
        kernels = kernels_of("cpu")
        values = [value.to(device) for value in x.values]
        update, query, gain, grad = ((x.update if x.update is not None else x.grad).to(device), x.query.to(device),
                                     x.gain.to(device), x.grad.to(device))  # fmt: skip
        scales = [torch.ones(6, device=device)] * 4
        ahead = kernels.look_ahead(values[:2], scales[:2], torch.stack([query] * 2))
        site = kernels.site(
            values[2:3], scales[2:3], values[3], update, query, gain, 1e-6, torch.bfloat16, ahead.query(1), True
        )
        stream, normed = kernels.add_norm(values[0], update, gain, 1e-6, torch.float16, True)
        consumer = Consumer(grad, scales[0], query, site.log_total, site.logits, 1)
        grads, grad_queries = kernels.source_backward(values[:2], scales[:2], [[consumer] * 3] * 2, None)
        back = kernels.norm_backward(grad, normed, gain, 1e-6, stream)
        return [*ahead, site.value, site.scale, *site.normed, site.logits, site.log_total, stream, *normed, *grads,
                grad_queries, *back]  # fmt: skip

    described = [[(t.shape, t.dtype) for t in everything(device)] for device in ("cpu", "meta")]
    assert described[0] == described[1]
