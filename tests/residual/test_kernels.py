"""The kernels of the CPU's back ends against the reference, in float64 and with a tolerance that follows from rounding.

The reference gets the same rounded sources. Each check goes through a whole site and back: mixing, norm, the norm's
backward pass, and the gradient that every source gathers.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnres_cli.residual.operator import Consumer
from attnres_cli.residual.ops import reference
from tests.residual.kernel_sites import (
    Results,
    assert_within_rounding,
    by_kernels,
    by_reference,
    drawn,
    kernels_of,
    with_twins,
)

NARROW = (torch.float32, torch.bfloat16, torch.float16)
every_kernel = pytest.mark.parametrize("backend", ["cpu", "torch"])


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
@pytest.mark.parametrize("form", ["plain", "update", "twins"])
def test_rounding_grows_no_faster_than_the_query(
    backend: str, dtypes: list[torch.dtype], query_size: float, form: str
) -> None:
    """A logit is of size |q| √d, its float32 rounding |q| √d 2⁻²⁴, and the softmax passes that on, to every number of
    the site and of its gradients: each is held to a bound of its own (rounding.py)."""
    x = drawn(9, 6, 40, dtypes, query_size=query_size, update=form == "update")
    x = with_twins(x) if form == "twins" else x
    found = by_kernels(kernels_of(backend), x)
    assert found.output.dtype is torch.float32
    assert_within_rounding(found, x)


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
