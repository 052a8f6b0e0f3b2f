"""Full and Block against the paper's equations, written again in slow_loop.py."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.protocol import Site, State, SublayerInput
from tests.residual import slow_loop
from tests.small import small_model, tokens_and_targets


class Recorder:
    """What the trunk did: the state before every sublayer and before the output site, the outputs."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self.outputs: list[Tensor] = []

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None:
        self.states.append(before)
        self.outputs.append(output)

    def close(self, state: State, output: Tensor) -> None:
        self.states.append(state)


def pieces(model: LanguageModel) -> tuple[list[slow_loop.Sublayer], list[Tensor], list[Tensor | None]]:
    """The model's sublayers f_l with their PreNorm, its queries and gains, output site last."""
    sublayers: list[slow_loop.Sublayer] = []
    for block in model.blocks:
        sublayers.append(lambda h, b=block: b.attention(b.attention_norm(h)))
        sublayers.append(lambda h, b=block: b.feed_forward(b.feed_forward_norm(h)))
    sites = [*model.residual.sites, model.residual.output]
    return sublayers, [site.query for site in sites], [getattr(site, "key_gain", None) for site in sites]


SPLITS: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    ({"block_sublayers": 1}, (1,) * 8),
    ({"block_sublayers": 2}, (2, 2, 2, 2)),
    ({"block_sublayers": 3}, (3, 3, 2)),
    ({"block_sublayers": 8}, (8,)),
    ({"num_blocks": 1}, (8,)),
    ({"num_blocks": 3}, (2, 2, 4)),
    ({"num_blocks": 5}, (1, 1, 1, 1, 4)),
    ({"num_blocks": 8}, (1,) * 8),
    ({}, (1,) * 8),
]


@torch.no_grad()
@pytest.mark.parametrize("gain", [True, False])
@pytest.mark.parametrize("backend", ["reference", "torch"])
def test_full_is_equations_1_to_4(gain: bool, backend: str) -> None:
    model = small_model({"scheme": "attnres-full", "gain": gain, "backend": backend}, stir=0.7)
    tokens, _ = tokens_and_targets()
    expected, alphas = slow_loop.full(model.embedding(tokens), *pieces(model), epsilon=model.config.norm_epsilon)
    recorder = Recorder()
    closed = model.walk(tokens, recorder)
    torch.testing.assert_close(closed, model.final_norm(expected), rtol=1e-12, atol=1e-12)
    for ordinal, (state, alpha) in enumerate(zip(recorder.states, alphas, strict=True)):
        names, weights = model.residual.depth_weights(state, ordinal)
        assert len(names) == ordinal + 1
        torch.testing.assert_close(weights, alpha, rtol=1e-12, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize(("config", "sizes"), SPLITS)
def test_block_is_equations_5_and_6(config: dict[str, Any], sizes: tuple[int, ...]) -> None:
    model = small_model({"scheme": "attnres-block", **config}, stir=0.7)
    tokens, _ = tokens_and_targets()
    expected, alphas = slow_loop.block(
        model.embedding(tokens), *pieces(model), epsilon=model.config.norm_epsilon, sizes=sizes
    )
    recorder = Recorder()
    closed = model.walk(tokens, recorder)
    torch.testing.assert_close(closed, model.final_norm(expected), rtol=1e-12, atol=1e-12)
    for ordinal, (state, alpha) in enumerate(zip(recorder.states, alphas, strict=True)):
        torch.testing.assert_close(model.residual.depth_weights(state, ordinal)[1], alpha, rtol=1e-12, atol=1e-12)


def test_block_of_one_sublayer_is_full_bit_for_bit() -> None:
    tokens, targets = tokens_and_targets()
    gradients = []
    for residual in ({"scheme": "attnres-full"}, {"scheme": "attnres-block", "block_sublayers": 1}):
        model = small_model(residual, stir=0.7)
        model.loss(tokens, targets).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        other = gradients[1][name]
        assert (gradient is None) == (other is None)
        assert gradient is None or torch.equal(gradient, other), name


@torch.no_grad()
def test_source_counts_follow_the_paper() -> None:
    """12 sublayers in blocks of 4: the first sublayer of a block sees no partial sum, every later one exactly one."""
    model = small_model({"scheme": "attnres-block", "block_sublayers": 4}, **{"model.transformer_blocks": 6})
    recorder = Recorder()
    model.walk(tokens_and_targets()[0], recorder)
    counts = [len(model.residual.depth_weights(state, i)[0]) for i, state in enumerate(recorder.states)]
    assert counts == [1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4]


@torch.no_grad()
@pytest.mark.parametrize(("config", "sizes"), SPLITS)
def test_block_sums_add_up_to_the_standard_stream(config: dict[str, Any], sizes: tuple[int, ...]) -> None:
    """Sums, not means, and every output in exactly one block: Σ b_n = embedding + Σ outputs."""
    model = small_model({"scheme": "attnres-block", **config}, stir=0.7)
    tokens, _ = tokens_and_targets()
    recorder = Recorder()
    model.walk(tokens, recorder)
    sources = recorder.states[-1][0::2]
    assert len(sources) == len(sizes) + 1
    torch.testing.assert_close(sum(sources), model.embedding(tokens) + sum(recorder.outputs), rtol=1e-12, atol=1e-14)
    first = 0
    for size, source in zip(sizes, sources[1:], strict=True):
        torch.testing.assert_close(source, sum(recorder.outputs[first : first + size]), rtol=1e-12, atol=1e-14)
        first += size


@torch.no_grad()
@pytest.mark.parametrize("scheme", ["attnres-full", "attnres-block"])
def test_silent_sublayers_leave_the_embedding_at_the_head(scheme: str) -> None:
    """With every sublayer silenced the sources are the embedding and zeros; zero queries give its mean, normalised."""
    model = small_model({"scheme": scheme})
    for block in model.blocks:
        block.attention.output.weight.zero_()
        block.feed_forward.down.weight.zero_()
    tokens, _ = tokens_and_targets()
    # the norm's epsilon of 1e-12 weighs 81 times more on the mean of nine (mean square 5e-6) than on the embedding
    # itself
    torch.testing.assert_close(model.walk(tokens), model.final_norm(model.embedding(tokens)), rtol=1e-6, atol=0)


def test_the_embedding_gets_gradient_through_every_block() -> None:
    model = small_model({"scheme": "attnres-block", "block_sublayers": 2}, stir=0.7)
    recorder = Recorder()
    embedded = model.embedding(tokens_and_targets()[0]).detach().requires_grad_()
    model.embedding = torch.nn.Module()  # type: ignore[assignment]
    model.embedding.forward = lambda tokens: embedded
    model.walk(tokens_and_targets()[0], recorder)
    for source in recorder.states[-1][2::2]:
        (gradient,) = torch.autograd.grad(source.sum(), embedded, retain_graph=True)
        assert gradient.abs().max() > 0


HALF = [
    {"scheme": "attnres-full"},
    {"scheme": "attnres-block", "block_sublayers": 3},
    {"scheme": "attnres-full", "query": "input"},
    {"scheme": "attnres-low-rank", "block_sublayers": 3},
    {"scheme": "attnres-role-decoupled", "block_sublayers": 3},
    {"scheme": "attnres-multi-head", "block_sublayers": 3},
    {"scheme": "delta-attnres"},
    {"scheme": "haares", "block_sublayers": 3},
    {"scheme": "dual-attnres", "block_sublayers": 3},
]


@torch.no_grad()
@pytest.mark.parametrize("residual", HALF, ids=str)
def test_half_precision_sources_are_mixed_in_float32(residual: dict[str, Any]) -> None:
    """Under autocast sublayer outputs are bfloat16; the state that is summed and mixed is not, and neither are keys,
    queries and weights: from the same state they are what they are without autocast."""
    model = small_model(residual, dtype=torch.float32, stir=0.7)
    recorder = Recorder()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model.walk(tokens_and_targets()[0], recorder)
        found = model.residual.depth_weights(recorder.states[-1], 8)
        born = model.residual.open(recorder.states[-1][0])
    assert {output.dtype for output in recorder.outputs} == {torch.bfloat16}
    assert {tensor.dtype for state in recorder.states for tensor in state} == {torch.float32}
    expected = model.residual.depth_weights(recorder.states[-1], 8)
    assert found is not None
    assert expected is not None
    torch.testing.assert_close(found[1], expected[1], rtol=1e-6, atol=1e-7)
    for tensor, exact in zip(born, model.residual.open(recorder.states[-1][0]), strict=True):
        torch.testing.assert_close(tensor, exact, rtol=1e-6, atol=1e-7)
