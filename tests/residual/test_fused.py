"""Fused passes against the stepwise loop: the same loss and the same gradients, for every scheme and back end."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.model.cross_entropy import summed_cross_entropy
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual import fused
from attnres_cli.residual.backends import load_backend
from attnres_cli.residual.protocol import Site, State, SublayerInput
from tests.small import RESIDUALS, small_model, tokens_and_targets

BACKENDS = [name for name in ("cpu", "torch") if load_backend(name).unusable(torch.device("cpu")) is None]
every_backend = pytest.mark.parametrize("backend", BACKENDS)
SCHEMES: dict[str, dict[str, Any]] = {name: r for name, r in RESIDUALS.items() if "backend" not in r}
every_scheme = pytest.mark.parametrize("residual", SCHEMES.values(), ids=SCHEMES.keys())
DEEP = {"model.transformer_blocks": 14}


class Nobody:
    """A watcher that looks away: the loop is taken step by step because of it."""

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None:
        pass

    def close(self, state: State, output: Tensor) -> None:
        pass


def loss_of(model: LanguageModel, *, stepwise: bool) -> Tensor:
    tokens, targets = tokens_and_targets()
    if not stepwise:
        assert model.residual.fused_pass(model.embedding(tokens)) is not None
    closed = model.walk(tokens, Nobody() if stepwise else None)
    return summed_cross_entropy(closed.flatten(0, 1), model.head_weight, targets.flatten())


def loss_and_gradients(model: LanguageModel, *, stepwise: bool) -> tuple[Tensor, dict[str, Tensor | None]]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    loss = loss_of(model, stepwise=stepwise)
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return loss, dict(zip(names, found, strict=True))


def gradients(model: LanguageModel, *, stepwise: bool) -> dict[str, Tensor | None]:
    return loss_and_gradients(model, stepwise=stepwise)[1]


def assert_same(found: dict[str, Tensor | None], exact: dict[str, Tensor | None], tolerance: float) -> None:
    for name, gradient in exact.items():
        other = found[name]
        assert (other is None) == (gradient is None), name
        if other is not None and gradient is not None:
            size = float(gradient.abs().max())
            torch.testing.assert_close(other, gradient, rtol=0, atol=tolerance * size + 1e-300, msg=name)


@every_backend
@every_scheme
@pytest.mark.parametrize("changes", [{}, DEEP], ids=["8 sublayers", "28 sublayers"])
@pytest.mark.parametrize("epsilon", [1e-12, 1e-2])
def test_equals_the_stepwise_loop(
    backend: str, residual: dict[str, Any], changes: dict[str, Any], epsilon: float
) -> None:
    model = small_model({**residual, "backend": backend}, stir=0.7, **changes, **{"model.norm_epsilon": epsilon})
    loss, found = loss_and_gradients(model, stepwise=False)
    exact_loss, exact = loss_and_gradients(model, stepwise=True)
    torch.testing.assert_close(loss, exact_loss, rtol=1e-13, atol=0)
    assert_same(found, exact, 1e-11)
    with torch.no_grad():
        tokens, _ = tokens_and_targets()
        torch.testing.assert_close(model.walk(tokens), model.walk(tokens, Nobody()), rtol=1e-11, atol=1e-12)


@every_backend
@every_scheme
def test_gains_that_cannot_be_divided_by(backend: str, residual: dict[str, Any]) -> None:
    model = small_model({**residual, "backend": backend}, stir=0.7)
    with torch.no_grad():
        for block in model.blocks:
            block.attention_norm.gain[3] = 0
            block.feed_forward_norm.gain[5] = 1e-9
    assert_same(gradients(model, stepwise=False), gradients(model, stepwise=True), 1e-11)


@every_backend
@every_scheme
def test_in_float32(backend: str, residual: dict[str, Any]) -> None:
    model = small_model({**residual, "backend": backend}, stir=0.7, dtype=torch.float32)
    assert_same(gradients(model, stepwise=False), gradients(model, stepwise=True), 1e-4)


@every_backend
@every_scheme
def test_autocast_rounds_little_more_than_step_by_step(backend: str, residual: dict[str, Any]) -> None:
    """Both round what matrix products take and give to bfloat16; held against float32, over all gradients together.

    The fused pass rounds one thing more: the norm keeps its output, in bfloat16, and not its input. One draw of weights
    says little about that (up to 1.4 times the error, or none), so several are added up.
    """
    errors = {False: 0.0, True: 0.0}
    for seed in range(6):
        model = small_model({**residual, "backend": backend}, stir=0.7, dtype=torch.float32, **{"train.seed": seed})
        exact = gradients(model, stepwise=True)
        for stepwise in errors:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                found = gradients(model, stepwise=stepwise)
            pairs = [(found[name], gradient) for name, gradient in exact.items()]
            ratios = [(f - e).norm() / e.norm() for f, e in pairs if f is not None and e is not None]
            errors[stepwise] += float(torch.stack(ratios).mean()) / 6
    assert 0 < errors[False] < 1.3 * errors[True] < 0.3


@every_backend
@pytest.mark.parametrize("scheme", ["attnres-full", "attnres-block"])
def test_a_second_backward_pass_through_the_same_graph(backend: str, scheme: str) -> None:
    model = small_model({"scheme": scheme, "backend": backend}, stir=0.7, **DEEP)
    parameters = [p for name, p in model.named_parameters() if not name.startswith("residual.sites.0.")]
    loss = loss_of(model, stepwise=False)
    first = torch.autograd.grad(loss, parameters, retain_graph=True)
    second = torch.autograd.grad(loss, parameters)
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@every_backend
@pytest.mark.parametrize("scheme", ["attnres-full", "attnres-block"])
def test_part_of_a_backward_pass_leaves_nothing_behind(backend: str, scheme: str) -> None:
    """The gradient of the last feed-forward alone does not run the early sites; the next pass must not see its
    records."""
    model = small_model({"scheme": scheme, "backend": backend}, stir=0.7, **DEEP)
    late, early = model.blocks[-1].feed_forward.down.weight, model.embedding.weight
    exact = torch.autograd.grad(loss_of(model, stepwise=True), [late, early])
    loss = loss_of(model, stepwise=False)
    (alone,) = torch.autograd.grad(loss, [late], retain_graph=True)
    both = torch.autograd.grad(loss, [late, early])
    for found, expected in ((alone, exact[0]), (both[0], exact[0]), (both[1], exact[1])):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-13)


@every_backend
@pytest.mark.parametrize("frozen", ["queries", "all but queries", "embedding"])
def test_frozen_parameters(backend: str, frozen: str) -> None:
    def freeze(model: LanguageModel) -> LanguageModel:
        for name, parameter in model.named_parameters():
            of_residual = name.startswith("residual.")
            wanted = {"queries": not of_residual, "all but queries": of_residual, "embedding": "embedding" not in name}
            parameter.requires_grad_(wanted[frozen])
        return model

    def found(stepwise: bool) -> dict[str, Tensor]:
        model = freeze(small_model({"scheme": "attnres-block", "backend": backend}, stir=0.7))
        loss_of(model, stepwise=stepwise).backward()
        return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}

    fused_gradients, exact = found(False), found(True)
    assert fused_gradients.keys() == exact.keys()
    for name, gradient in exact.items():
        torch.testing.assert_close(fused_gradients[name], gradient, rtol=1e-10, atol=1e-13)


@every_backend
@pytest.mark.parametrize("backward", [True, False])
def test_the_graph_goes_with_the_loss(backend: str, backward: bool) -> None:
    """No reference cycle: what a pass holds is released at once, without the garbage collector."""
    model = small_model({"scheme": "attnres-full", "backend": backend}, stir=0.7, **DEEP)
    kept: list[weakref.ref[Any]] = []
    make = fused._Tape

    class Watched(make):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            kept.append(weakref.ref(self))

    fused._Tape = Watched  # type: ignore[misc]
    gc.disable()
    try:
        loss = loss_of(model, stepwise=False)
        if backward:
            loss.backward()
        del loss
        assert kept
        assert all(ref() is None for ref in kept)
    finally:
        gc.enable()
        fused._Tape = make  # type: ignore[misc]


@every_backend
def test_what_the_graph_keeps(backend: str) -> None:
    """The sublayers' outputs and inputs, each once, and per token a few numbers per source and site."""
    model = small_model({"scheme": "attnres-full", "backend": backend}, dtype=torch.float32, **DEEP)
    tokens, sites, width = 24, 29, 16
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    embedding = model.embedding(tokens_and_targets()[0]).detach()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run = model.residual.fused_pass(embedding)
        assert run is not None
        held = []
        for site in model.sites():
            held.append(run.read(site))
            run.write(site, torch.ones_like(held[-1]).requires_grad_())
        held.append(run.close(model.final_norm))
    sources_and_outputs = 2 * sites * tokens * width
    numbers = tokens * (sites * (sites + 1) // 2 + sites * sites**0.5 + 4 * sites)
    assert sum(kept.values()) <= sources_and_outputs + numbers + 4 * sites * width


@every_backend
@every_scheme
@pytest.mark.parametrize("backward", [True, False])
def test_outputs_that_are_not_contiguous(backend: str, residual: dict[str, Any], backward: bool) -> None:
    """Sublayers may hand over views; batch of one, too."""
    model = small_model({**residual, "backend": backend}, stir=0.7)

    def run(strided: bool, sequences: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(5)
        drawn = [torch.randn(12, sequences, 16, generator=generator, dtype=torch.float64) for _ in range(9)]
        leaves = [each.requires_grad_(backward) for each in drawn]
        embedding, *outputs = (
            each.transpose(0, 1) if strided else each.transpose(0, 1).contiguous() for each in leaves
        )
        with torch.set_grad_enabled(backward):
            steps = model.residual.fused_pass(embedding)
            assert steps is not None
            seen = []
            for site, output in zip(model.sites(), outputs, strict=True):
                seen.append(steps.read(site))
                steps.write(site, output)
            seen.append(steps.close(model.final_norm))
        if not backward:
            return seen
        total = sum(((1 + place) * each.square().sum() for place, each in enumerate(seen)), torch.zeros(()).double())
        return [*seen, *torch.autograd.grad(total, leaves)]

    for sequences in (1, 3):
        for one, other in zip(run(True, sequences), run(False, sequences), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@every_scheme
def test_torch_compile_takes_the_stepwise_loop(residual: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(residual)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert model.residual.fused_pass(torch.zeros(1, 1, 16, dtype=torch.float64)) is None


def test_the_reference_takes_the_stepwise_loop() -> None:
    model = small_model({"scheme": "attnres-full", "backend": "reference"})
    assert model.residual.fused_pass(torch.zeros(1, 1, 16, dtype=torch.float64)) is None
