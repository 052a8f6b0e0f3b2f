"""The residual path alone is the real one: its values and gradients against a loop over the scheme's own steps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnres_cli.bench.residual_path import ResidualPath
from attnres_cli.model.build import build_model
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.backends import backend_names, load_backend
from tests.small import RESIDUALS, small_preset

USABLE = [name for name in backend_names() if load_backend(name).unusable(torch.device("cpu")) is None]


def built(residual: str, backend: str) -> tuple[LanguageModel, ResidualPath]:
    model = build_model(small_preset({**RESIDUALS[residual], "backend": backend}), 31)
    with torch.no_grad():
        for index, parameter in enumerate(model.residual.parameters()):
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(index))
    return model, ResidualPath(model, 2, "fp32")


def slow_gradients(model: LanguageModel, path: ResidualPath) -> tuple[Tensor, Tensor]:
    """(what the head sees, the embedding's gradient), each sublayer written as x · 0 + output with a set gradient."""
    embedding = path.embedding.detach().requires_grad_()
    state = model.residual.open(embedding)
    for site, output in zip(model.sites(), path.outputs, strict=True):
        x, state = model.residual.read(state, site)
        assert isinstance(x, Tensor)
        x.register_hook(lambda grad: path.grad_input)
        state = model.residual.write(state, site, output + 0 * x)
    closed = model.residual.close(state, model.final_norm)
    torch.autograd.backward(closed, path.grad_closed)
    assert embedding.grad is not None
    return closed.detach(), embedding.grad


@pytest.mark.parametrize("backend", USABLE)
@pytest.mark.parametrize("residual", ["prenorm", "full", "3 blocks"])
def test_values_and_gradients(residual: str, backend: str) -> None:
    model, path = built(residual, backend)
    closed, grad = slow_gradients(model, path)
    seen: list[Tensor] = []
    path.embedding.register_hook(seen.append)
    walked = path.walk()
    torch.autograd.backward(walked, path.grad_closed)
    torch.testing.assert_close(walked.detach(), closed, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(seen[0], grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", USABLE)
def test_outputs_are_left_as_they_are_and_no_gradient_stays(backend: str) -> None:
    model, path = built("3 blocks", backend)
    before = [output.clone() for output in path.outputs]
    path.forward()
    path.step()
    path.step()
    assert all(torch.equal(now, then) for now, then in zip(path.outputs, before, strict=True))
    assert all(parameter.grad is None for parameter in (path.embedding, *model.parameters()))


def test_under_autocast() -> None:
    model = build_model(small_preset(RESIDUALS["full"]), 31)
    path = ResidualPath(model, 2, "bf16")
    path.step()
    assert {output.dtype for output in path.outputs} == {torch.bfloat16}
