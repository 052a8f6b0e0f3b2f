"""The Triton kernels against plain formulas in float64, on a GPU or in Triton's interpreter.

Run by test_triton.py in a process of its own, because the interpreter has to be chosen before Triton loads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.residual.operator import Consumer, Kernels, Normed
from attnres_cli.residual.ops import triton
from tests.residual.kernel_sites import assert_within_rounding, by_kernels, with_twins
from tests.residual.kernel_sites import drawn as kernel_inputs
from tests.small import small_model, tokens_and_targets

EPSILON = 1e-12
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
KERNELS: Kernels = triton.kernels
MIXED = (torch.float32, torch.bfloat16, torch.float16)


@pytest.fixture(scope="module", autouse=True)
def functions_look_for_the_language_once() -> Iterator[None]:
    """Only for speed. Whenever a kernel calls a function, the interpreter looks through triton.language for what it has
    to put its own in place of; all but the first time it finds nothing to replace, and that is half of its work."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        yield
        return
    from triton import language
    from triton.runtime.interpreter import InterpretedFunction

    def call(function: Any, *arguments: Any, **named: Any) -> Any:
        names = {id(value) for value in function.fn.__globals__.values()}
        if any(id(module) in names and language.core.is_builtin(module.load) for module in (language, language.core)):
            return looking(function, *arguments, **named)
        return function.rewrite()(*arguments, **named)

    looking = InterpretedFunction.__call__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InterpretedFunction, "__call__", call)
        yield


def test_it_runs_here() -> None:
    assert triton.unusable(DEVICE) is None


# ---- what is computed, in float64


def inverse_rms(value: Tensor, epsilon: float = EPSILON) -> Tensor:
    return torch.rsqrt(value.square().mean(-1) + epsilon)


def logits_of(values: Sequence[Tensor], query: Tensor) -> Tensor:
    """[M, n]"""
    return torch.stack([value @ query * inverse_rms(value) for value in values], dim=1)


def mixture_of(values: Sequence[Tensor], query: Tensor) -> Tensor:
    weights = torch.softmax(logits_of(values, query), dim=1)
    return sum((weights[:, i : i + 1] * value for i, value in enumerate(values)), torch.zeros_like(values[0]))


def norm_of(x: Tensor, gain: Tensor, epsilon: float = EPSILON) -> Tensor:
    return x * inverse_rms(x, epsilon).unsqueeze(-1) * gain


# ---- inputs and comparison


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(1000 * seed + sum(shape))
    return torch.randn(shape, generator=generator).to(DEVICE)


def sources(count: int, tokens: int, width: int, dtypes: Sequence[torch.dtype] = MIXED) -> list[Tensor]:
    """Sources whose sizes differ by orders of magnitude, of `dtypes` in turn."""
    return [(drawn(tokens, width, seed=i + 1) * 10.0 ** (i % 4 - 2)).to(dtypes[i % len(dtypes)]) for i in range(count)]


def scales_of(values: Sequence[Tensor]) -> list[Tensor]:
    return [inverse_rms(value.double()).float() for value in values]


def tolerance(query: Tensor) -> float:
    """A logit is of size |q| √d, so its float32 rounding is of size |q| √d 2⁻²⁴, which the softmax passes on."""
    return 16 * (1 + float(query.norm()) * query.numel() ** 0.5) * 2.0**-24


def assert_near(found: Tensor, exact: Tensor, tolerance: float) -> None:
    """To within `tolerance` of the largest value."""
    assert found.dtype is torch.float32
    size = float(exact.abs().max()) if exact.numel() else 0.0
    torch.testing.assert_close(found.double(), exact.detach(), rtol=0, atol=tolerance * (size + 1e-30))


# ---- a site


@pytest.mark.parametrize(
    ("count", "tokens", "width"),
    [(1, 1, 7), (1, 3, 33), (2, 2, 1), (2, 1, 100), (3, 3, 33), (3, 2, 256), (33, 2, 7), (65, 1, 33), (129, 1, 7)],
)
@pytest.mark.parametrize("updated", [True, False])
def test_a_site(count: int, tokens: int, width: int, updated: bool) -> None:
    *values, newest = sources(count, tokens, width)
    update = drawn(tokens, width, seed=77).bfloat16() if updated else None
    query, gain = 0.5 * drawn(width, seed=5), drawn(width, seed=6)
    site = KERNELS.site(values, scales_of(values), newest, update, query, gain, EPSILON, torch.float32, None, True)

    born = newest.double() if update is None else newest.double() + update.double()
    every = [*(value.double() for value in values), born]
    logits, mixture = logits_of(every, query.double()), mixture_of(every, query.double())
    near = tolerance(query)
    if update is None:
        assert site.value is newest
    else:
        assert_near(site.value, born, 2.0**-23)
    assert_near(site.scale, inverse_rms(born), 1e-6)
    assert_near(site.logits, logits, near)
    assert_near(site.log_total, torch.logsumexp(logits, dim=1), near)
    assert_near(site.normed.kept.float(), mixture, near)
    assert site.normed.kept is not site.normed.output
    exact = norm_of(mixture, gain.double())
    assert_near(site.normed.inverse_rms, inverse_rms(mixture), near * float(exact.abs().max()))
    assert_near(site.normed.output, exact, near * (1 + float((every[0] / mixture).abs().max())))


@pytest.mark.parametrize("dtype", MIXED)
@pytest.mark.parametrize("size", [1.0, 1e2, 1e4])
def test_rounding_grows_no_faster_than_the_query(dtype: torch.dtype, size: float) -> None:
    *values, newest = sources(9, 2, 24, [dtype])
    query = drawn(24, seed=5)
    query *= size / query.norm()
    site = KERNELS.site(
        values, scales_of(values), newest, None, query, torch.ones_like(query), EPSILON, dtype, None, True
    )
    exact = mixture_of([value.double() for value in [*values, newest]], query.double())
    assert_near(site.normed.kept, exact, tolerance(query))


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_rounding_of_a_site_and_back_grows_no_faster_than_the_query(size: float) -> None:
    x = with_twins(kernel_inputs(3, 2, 40, MIXED, query_size=size))
    here: dict[str, Any] = {name: getattr(x, name).to(DEVICE) for name in ("query", "gain", "grad")}
    found = by_kernels(KERNELS, x._replace(values=[value.to(DEVICE) for value in x.values], **here))
    assert_within_rounding(found, x)


def test_one_source_is_the_mixture_itself() -> None:
    newest = drawn(3, 33).bfloat16()
    query = 1e4 * drawn(33, seed=5)
    site = KERNELS.site([], [], newest, None, query, torch.ones_like(query), EPSILON, torch.float32, None, True)
    assert site.normed.kept is site.value is newest
    assert not site.log_total.sub(site.logits[:, 0]).any()


@pytest.mark.parametrize("dtype", MIXED)
def test_only_the_output_is_narrow(dtype: torch.dtype) -> None:
    """The interpreter cuts digits off where a GPU rounds."""
    *values, newest = sources(3, 2, 33)
    query, gain = drawn(33, seed=5), drawn(33, seed=6)
    wide, narrow = (
        KERNELS.site(values, scales_of(values), newest, None, query, gain, EPSILON, each, None, True).normed.output
        for each in (torch.float32, dtype)
    )
    assert narrow.dtype is dtype
    torch.testing.assert_close(narrow.float(), wide, rtol=torch.finfo(dtype).eps, atol=1e-7)


def test_a_forward_pass_keeps_nothing() -> None:
    *values, newest = sources(3, 2, 33)
    query, gain = drawn(33, seed=5), drawn(33, seed=6)
    with_backward, without = (
        KERNELS.site(values, scales_of(values), newest, None, query, gain, EPSILON, torch.float32, None, backward)
        for backward in (True, False)
    )
    assert_near(without.normed.output, with_backward.normed.output.double(), 1e-6)
    assert without.normed.kept is without.normed.output


def test_sources_at_any_address() -> None:
    """Views that begin off the 16-byte boundary of the allocator."""
    *values, newest = sources(4, 2, 32, [torch.float32])
    shifted = []
    for value in values:
        room = torch.empty(value.numel() + 1, device=DEVICE)
        shifted.append(room[1:].view_as(value).copy_(value))
    query, gain = drawn(32, seed=5), drawn(32, seed=6)
    scales = scales_of(values)
    here, there = (
        KERNELS.site(each, scales, newest, None, query, gain, EPSILON, torch.float32, None, True)
        for each in (values, shifted)
    )
    assert_near(there.normed.output, here.normed.output.double(), 1e-6)


@pytest.mark.parametrize(("queries", "ahead_of", "more"), [(1, 1, 0), (3, 4, 0), (5, 2, 3), (40, 2, 0)])
@pytest.mark.parametrize("width", [7, 33])
def test_two_phases_equal_one(queries: int, ahead_of: int, more: int, width: int) -> None:
    finished, newest = sources(ahead_of + more, 2, width), drawn(2, width, seed=99)
    asked, gain = 0.5 * drawn(queries, width, seed=5), drawn(width, seed=6)
    scales = scales_of(finished)
    ahead = KERNELS.look_ahead(finished[:ahead_of], scales[:ahead_of], asked)
    assert ahead.mixed.shape == (queries, 2, width)
    assert ahead.logits.shape == (queries, 2, ahead_of)
    for which in {0, queries // 2, queries - 1}:
        query = asked[which]
        rest = finished[ahead_of:], scales[ahead_of:], newest, None, query, gain, EPSILON, torch.float32
        merged = KERNELS.site(*rest, ahead.query(which), True)
        direct = KERNELS.site(finished, scales, newest, None, query, gain, EPSILON, torch.float32, None, True)
        near = tolerance(query)
        assert_near(merged.normed.kept, direct.normed.kept.double(), near)
        assert_near(merged.log_total, direct.log_total.double(), near)
        assert_near(torch.cat([ahead.logits[which], merged.logits], dim=1), direct.logits.double(), near)


# ---- the plain residual


@pytest.mark.parametrize(("tokens", "width"), [(1, 7), (3, 33), (2, 100)])
@pytest.mark.parametrize("updated", [True, False])
def test_add_and_norm(tokens: int, width: int, updated: bool) -> None:
    stream, gain = drawn(tokens, width), drawn(width, seed=6)
    update = drawn(tokens, width, seed=2).half() if updated else None
    summed, normed = KERNELS.add_norm(stream, update, gain, EPSILON, torch.float32, True)
    exact = stream.double() + (0 if update is None else update.double())
    assert_near(summed, exact, 2.0**-23)
    assert_near(normed.output, norm_of(exact, gain.double()), 1e-6)
    assert_near(normed.inverse_rms, inverse_rms(exact), 1e-6)
    assert normed.kept is summed


# ---- backwards


@pytest.mark.parametrize(("tokens", "width"), [(1, 7), (5, 33), (4, 100)])
@pytest.mark.parametrize("dtype", MIXED)
@pytest.mark.parametrize("carried", [True, False])
def test_norm_backwards(tokens: int, width: int, dtype: torch.dtype, carried: bool) -> None:
    """Gains of zero and near it, a token that is all zero, and an ε that matters."""
    epsilon = 0.1
    x, gain, grad = drawn(tokens, width), drawn(width, seed=6), drawn(tokens, width, seed=3).to(dtype)
    gain[::3] = 0
    gain[1::3] *= 1e-30
    x[tokens - 1] = 0
    carry = drawn(tokens, width, seed=4) if carried else None
    _, normed = KERNELS.add_norm(x, None, gain, epsilon, dtype, True)
    grad_x, dot, grad_gain = KERNELS.norm_backward(grad, normed, gain, epsilon, carry)

    exact_x, exact_gain = x.double().requires_grad_(), gain.double().requires_grad_()
    output = norm_of(exact_x, exact_gain, epsilon)
    exact_grad_x, exact_grad_gain = torch.autograd.grad(output, [exact_x, exact_gain], grad.double())
    assert_near(grad_x, exact_grad_x + (0 if carry is None else carry.double()), 1e-6)
    torch.testing.assert_close(dot.double(), (exact_grad_x * x.double()).sum(-1), rtol=1e-5, atol=1e-5)
    assert_near(grad_gain, exact_grad_gain, 1e-6)


@pytest.mark.parametrize(
    ("count", "consumers", "tokens", "width", "carried"),
    [
        (1, 1, 1, 7, False), (2, 1, 3, 33, True), (3, 2, 2, 100, False), (33, 2, 1, 7, True), (3, 17, 2, 33, False),
        (2, 33, 1, 7, True), (3, 2, 40, 70, False),
    ],
)  # fmt: skip
def test_a_source_gathers_its_gradient(count: int, consumers: int, tokens: int, width: int, carried: bool) -> None:
    """Every consumer mixes all sources; every source gathers what all consumers send."""
    values = sources(count, tokens, width)
    scales = scales_of(values)
    queries = 0.5 * drawn(consumers, width, seed=5)
    grads = drawn(consumers, tokens, width, seed=9)
    exact_values = [value.double().requires_grad_() for value in values]
    exact_queries = queries.double().requires_grad_()
    total = torch.zeros((), dtype=torch.float64, device=DEVICE)
    heard: list[Consumer] = []
    for query, exact_query, grad in zip(queries, exact_queries, grads, strict=True):
        exact = mixture_of(exact_values, exact_query)
        total = total + (exact * grad.double()).sum()
        dot = (grad.double() * exact.detach()).sum(-1).float()
        logits = logits_of([value.detach() for value in exact_values], query.double())
        log_total = torch.logsumexp(logits, dim=1)
        heard.append(Consumer(grad, dot, query, log_total.float(), logits.float(), 0))
    exact_grads = torch.autograd.grad(total, [*exact_values, exact_queries], allow_unused=True)

    near = max(tolerance(query) for query in queries)
    largest = max(float(grad.abs().max()) for grad in exact_grads[:-1])
    grad_queries = torch.zeros(consumers, width, dtype=torch.float64, device=DEVICE)
    for column, (value, scale) in enumerate(zip(values, scales, strict=True)):
        for consumer in heard:
            consumer.column = column
        carry = drawn(tokens, width, seed=11) if carried else None
        (grad_value,), share = KERNELS.source_backward([value], [scale], [heard], carry)
        grad_queries += share.double()
        exact = exact_grads[column] + (0 if carry is None else carry.double())
        torch.testing.assert_close(grad_value.double(), exact, rtol=0, atol=near * largest)
    # Every token adds |α (g - mean g)| √d at most; over the sources these cancel, wholly where there is only one.
    terms = max(float((grads.norm(dim=-1) * value.float().norm(dim=-1)).max()) for value in values)
    torch.testing.assert_close(grad_queries, exact_grads[-1], rtol=0, atol=near * terms * tokens**0.5)


def test_two_backward_passes_are_equal() -> None:
    values, query, grad = sources(3, 40, 33), drawn(33, seed=5), drawn(40, 33, seed=9)
    site = KERNELS.site(
        values[1:], scales_of(values[1:]), values[0], None, query, query, EPSILON, torch.float32, None, True
    )
    first, second = (
        [
            *_flat(
                KERNELS.source_backward(
                    [site.value],
                    [site.scale],
                    [[Consumer(grad, site.scale, query, site.log_total, site.logits, 2)] * 2],
                    grad,
                )
            ),
            *KERNELS.norm_backward(grad, site.normed, query, EPSILON, None),
        ]
        for _ in range(2)
    )
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_a_norm_of_a_forward_pass_has_no_way_back() -> None:
    grad = drawn(1, 7)
    with pytest.raises(AssertionError):
        KERNELS.norm_backward(grad, Normed(grad, grad, drawn(1)), drawn(7), EPSILON, None)


# ---- shapes


def everything(device: torch.device) -> list[Tensor]:
    """Every kernel once, on tensors of [6, 33]."""

    def moved(x: Tensor) -> Tensor:
        return x.to(device)

    values = [moved(value) for value in sources(4, 6, 33)]
    scales = [moved(drawn(6, seed=i)) for i in range(4)]
    queries, gain, grad = moved(drawn(2, 33)), moved(drawn(33, seed=6)), moved(drawn(6, 33, seed=9))
    ahead = KERNELS.look_ahead(values[:2], scales[:2], queries)
    site = KERNELS.site(
        values[2:3], scales[2:3], grad, values[3], queries[0], gain, EPSILON, torch.bfloat16, ahead.query(0), True
    )
    summed, normed = KERNELS.add_norm(grad, values[1], gain, EPSILON, torch.float16, True)
    backward = KERNELS.norm_backward(normed.output, normed, gain, EPSILON, summed)
    consumer = Consumer(grad, scales[0], queries[0], site.log_total, ahead.query(0).logits, 1)
    gathered = _flat(KERNELS.source_backward([values[1]], [scales[1]], [[consumer]], None))
    return [*ahead, site.value, site.scale, *site.normed, site.logits, site.log_total, summed, *normed] + [
        *backward,
        *gathered,
    ]


def test_the_meta_device_knows_the_shapes() -> None:
    here, nowhere = everything(DEVICE), everything(torch.device("meta"))
    assert [(x.shape, x.dtype, x.is_contiguous()) for x in here] == [
        (x.shape, x.dtype, x.is_contiguous()) for x in nowhere
    ]


def test_no_tokens_at_all() -> None:
    none = torch.empty(0, 33, device=DEVICE)
    gain = drawn(33)
    summed, normed = KERNELS.add_norm(none, none, gain, EPSILON, torch.float32, True)
    assert normed.output.shape == summed.shape == (0, 33)
    grad_x, _, grad_gain = KERNELS.norm_backward(none, normed, gain, EPSILON, summed)
    assert grad_x.shape == (0, 33)
    assert not grad_gain.any()


# ---- the whole model


def loss_and_gradients(residual: dict[str, object], narrow: bool = False) -> tuple[Tensor, dict[str, Tensor]]:
    tokens, targets = (each.to(DEVICE) for each in tokens_and_targets(1, 4))
    model = small_model(residual, dtype=torch.float32, stir=0.3, **{"model.transformer_blocks": 2}).to(DEVICE)
    assert str(residual["backend"]) in model.residual.prepare(DEVICE)
    fused = model.residual.fused_pass(torch.zeros(1, 1, 16, device=DEVICE))
    assert (fused is None) == (residual["backend"] == "reference")
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=narrow):
        loss = model.loss(tokens, targets)
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


SCHEMES = [{"scheme": "prenorm"}, {"scheme": "attnres-full"}, {"scheme": "attnres-block", "num_blocks": 3}]


@pytest.mark.parametrize("residual", SCHEMES)
def test_a_model_trains_as_through_the_reference(residual: dict[str, object]) -> None:
    loss, gradients = loss_and_gradients({**residual, "backend": "triton"})
    exact_loss, exact_gradients = loss_and_gradients({**residual, "backend": "reference"})
    torch.testing.assert_close(loss, exact_loss, rtol=1e-5, atol=0)
    for name, exact in exact_gradients.items():
        found = gradients.get(name, torch.zeros_like(exact))
        torch.testing.assert_close(found, exact, rtol=1e-3, atol=1e-4 * float(exact.abs().max()) + 1e-8, msg=name)


@pytest.mark.parametrize("residual", SCHEMES)
def test_a_model_under_autocast(residual: dict[str, object]) -> None:
    """An embedding in float32 and outputs in bfloat16 meet in one mixture; only bfloat16's rounding may tell."""
    loss, gradients = loss_and_gradients({**residual, "backend": "triton"}, narrow=True)
    exact_loss, exact_gradients = loss_and_gradients({**residual, "backend": "reference"})
    torch.testing.assert_close(loss, exact_loss, rtol=0.02, atol=0)
    for name in ("embedding.weight", "final_norm.gain"):
        assert torch.cosine_similarity(gradients[name].flatten(), exact_gradients[name].flatten(), dim=0) > 0.99


def _flat(gathered: tuple[Sequence[Tensor], Tensor]) -> list[Tensor]:
    return [*gathered[0], gathered[1]]
