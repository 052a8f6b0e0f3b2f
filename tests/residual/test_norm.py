"""RMSNorm against its definition; the written-out CPU gradient against finite differences."""

from __future__ import annotations

import pytest
import torch

from attnres_cli.residual.norm import RMSNorm


def norm_with_random_gain(width: int, epsilon: float, dtype: torch.dtype = torch.float64) -> RMSNorm:
    norm = RMSNorm(width, epsilon).to(dtype)
    with torch.no_grad():
        norm.gain.copy_(torch.linspace(0.5, 1.5, width))
    return norm


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 1e-2])
@pytest.mark.parametrize("shape", [(5,), (2, 3, 7), (1, 1, 1)])
def test_definition_and_gradient(epsilon: float, shape: tuple[int, ...]) -> None:
    x = torch.linspace(-2, 3, torch.Size(shape).numel(), dtype=torch.float64).view(shape) + 0.1
    norm = norm_with_random_gain(shape[-1], epsilon)
    root = (x.square().mean(-1, keepdim=True) + epsilon).sqrt()
    torch.testing.assert_close(norm(x), norm.gain * x / root, rtol=1e-14, atol=1e-14)
    gain = norm.gain.detach().requires_grad_()
    norm_of = lambda x, g: torch.func.functional_call(norm, {"gain": g}, (x,))  # noqa: E731
    assert torch.autograd.gradcheck(norm_of, (x.requires_grad_(), gain))


def test_half_precision_input_is_normalised_in_float32() -> None:
    """2e-4 squared is below bfloat16's resolution around nothing, but not below float32's."""
    x = torch.full((1, 4), 2e-4, dtype=torch.bfloat16)
    out = RMSNorm(4, 1e-12)
    with torch.no_grad():
        out.gain.fill_(1.0)
    y = out(x)
    assert y.dtype is torch.float32
    torch.testing.assert_close(y, torch.ones(1, 4), rtol=1e-4, atol=0)


def test_float32_gradient_agrees_with_torchs_own() -> None:
    x = torch.randn(4, 9, 32, generator=torch.Generator().manual_seed(0), requires_grad=True)
    norm = norm_with_random_gain(32, 1e-6, torch.float32)
    cotangent = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    found = torch.autograd.grad((norm(x) * cotangent).sum(), (x, norm.gain))
    expected = torch.autograd.grad(
        (torch.nn.functional.rms_norm(x, (32,), norm.gain, 1e-6) * cotangent).sum(), (x, norm.gain)
    )
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
