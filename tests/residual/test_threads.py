"""What the C++ kernels give at different numbers of threads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attnres_cli.residual.operator import Consumer
from attnres_cli.residual.ops import reference
from tests.residual.kernel_sites import drawn, kernels_of

# Thread counts of one call after the other: twice each, and each after the other.
THREADS = (1, 2, 2, 1)


def at_each_thread_count(compute: Callable[[], list[Tensor]]) -> list[list[Tensor]]:
    """What `compute` gives at each of THREADS."""
    threads = torch.get_num_threads()
    found = []
    try:
        for count in THREADS:
            torch.set_num_threads(count)
            found.append(compute())
    finally:
        torch.set_num_threads(threads)
    return found


def test_a_site_does_not_depend_on_the_number_of_threads() -> None:
    """Alone, after looking ahead, and back through its norm: all sums over tokens are the kernels' own."""
    kernels = kernels_of("cpu")
    x = drawn(5, 700, 33, [torch.float32], query_size=3.0)
    *finished, newest = x.values
    scales = [reference.inverse_rms(value, x.epsilon) for value in finished]
    queries = torch.stack([x.query, -x.query, 2 * x.query])

    def compute() -> list[Tensor]:
        ahead = kernels.look_ahead(finished[:2], scales[:2], queries)
        rest = newest, None, x.query, x.gain, x.epsilon, torch.float32
        found: list[Tensor] = [*ahead]
        for values, known, looked in ((finished, scales, None), (finished[2:], scales[2:], ahead.query(0))):
            site = kernels.site(values, known, *rest, looked, True)
            back = kernels.norm_backward(x.grad, site.normed, x.gain, x.epsilon, None)
            found += [*site.normed, site.logits, site.log_total, *back]
        return found

    first, *others = at_each_thread_count(compute)
    for other in others:
        assert all(torch.equal(one, two) for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize("sites", [3, 7, 9])
def test_gradients_of_sources_at_any_number_of_threads(sites: int) -> None:
    """The same bit for bit at the same number. Between numbers, too, as far as the sums are the kernels' own: those of
    sources with fewer than eight consumers. What the library's matrix products sum differs by rounding: in whichever
    order n products are added up, the sum is within n · 2⁻²⁴ (and its higher powers) of the exact one, in units of the
    sum of the products' sizes; so two orders are within twice that of each other.
    """
    kernels = kernels_of("cpu")
    x = drawn(2, 700, 33, [torch.float32])
    generator = torch.Generator().manual_seed(sites)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    tokens, width = x.values[0].shape
    scales = [reference.inverse_rms(value, x.epsilon) for value in x.values]
    logits = [normal(tokens, 2) for _ in range(sites)]
    each = [(normal(tokens, width), normal(tokens), normal(width), row.logsumexp(1), row) for row in logits]
    consumers = [[Consumer(*fields, column) for fields in each] for column in range(2)]

    def compute() -> list[Tensor]:
        grads, grad_queries = kernels.source_backward(x.values, scales, consumers, x.grad)
        return [*grads, grad_queries]

    found = at_each_thread_count(compute)
    for one, other in ((0, 3), (1, 2)):
        assert all(torch.equal(a, b) for a, b in zip(found[one], found[other], strict=True))

    # The products that are summed, by the formula in `Kernels.source_backward`, [tokens, sites, width].
    queries = torch.stack([consumer.query for consumer in consumers[0]]).double()
    of_queries = torch.zeros(sites, width, dtype=torch.float64)
    unit = 2.0**-24 * (1 + 1e-3)  # the higher powers, for n 2⁻²⁴ below a thousandth
    for column, (value, scale) in enumerate(zip(x.values, scales, strict=True)):
        value, scale = value.double(), scale.double().unsqueeze(1)
        grads = torch.stack([consumer.grad_mixed for consumer in consumers[column]], 1).double()
        dots = torch.stack([consumer.grad_dot_mixed for consumer in consumers[column]], 1).double()
        logit = torch.stack([row[:, column] for row in logits], 1).double()
        alpha = torch.exp(logit - torch.stack([row.double().logsumexp(1) for row in logits], 1))
        along = alpha * ((grads * value.unsqueeze(1)).sum(-1) - dots)
        of_queries += ((along * scale).unsqueeze(-1) * value.unsqueeze(1)).abs().sum(0)
        one, two = found[0][column], found[1][column]
        if sites < 8:
            assert torch.equal(one, two)
        else:  # two roundings more: of the kernels' own sum, and of adding it
            own = (alpha.unsqueeze(-1) * grads).abs().sum(1) + (x.grad.double().abs() if column == 0 else 0.0)
            own += ((along * logit).sum(1, keepdim=True) * scale.square() / width * value).abs()
            sizes = own + ((along * scale).unsqueeze(-1) * queries).abs().sum(1)
            assert bool(((one - two).double().abs() <= 2 * (sites + 2) * unit * sizes).all())
    apart = (found[0][-1] - found[1][-1]).double().abs()
    assert bool((apart <= 2 * 2 * tokens * unit * of_queries).all())
