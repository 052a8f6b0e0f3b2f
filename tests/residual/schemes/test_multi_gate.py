"""Multi-gate residuals against their formula."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.errors import UserError
from attnres_cli.model.trunk import LanguageModel
from tests.residual.trunk_pieces import Pieces, assert_walks_as, rms_norm, stirred
from tests.small import small_model, small_preset, tokens_and_targets


def walk(model: LanguageModel, at: Pieces, n: int, seeding: str) -> Tensor:
    own = model.residual.get_parameter

    def score(query: Tensor, stream: Tensor) -> Tensor:
        return (query * rms_norm(stream, None, at.epsilon)).sum(-1, keepdim=True) / math.sqrt(16)

    def pooled(query: Tensor, streams: list[Tensor]) -> Tensor:
        weights = [torch.exp(score(query, stream)) for stream in streams]
        total = torch.zeros_like(streams[0])
        for weight, stream in zip(weights, streams, strict=True):
            total = total + weight * stream
        return total / torch.stack(weights).sum(0)

    streams = [at.embedding] if seeding == "outputs" else [at.embedding] * n
    for ordinal in range(8):
        seen = at.embedding if ordinal == 0 else pooled(own(f"sites.{ordinal}.query"), streams)
        output = at.f[ordinal](at.norm[ordinal](seen))
        if len(streams) < n:
            streams = [*streams, output]
            continue
        new = []
        for i, stream in enumerate(streams):
            logit = score(own(f"sites.{ordinal}.gate_query"), stream) + own(f"sites.{ordinal}.gate_bias")[i]
            beta = 1 / (1 + torch.exp(-logit))
            new.append((1 - beta) * stream + beta * output)
        streams = new
    return at.final_norm(pooled(own("output.query"), streams))


@torch.no_grad()
@pytest.mark.parametrize("seeding", ["outputs", "embedding"])
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_against_the_formula(seeding: str, n: int, backend: str) -> None:
    residual = {"scheme": "multi-gate", "seeding": seeding, "num_streams": n, "backend": backend}
    model, at, tokens = stirred(residual, stir=1.0)
    assert_walks_as(model, tokens, walk(model, at, n, seeding))


def biases(**keys: Any) -> list[list[float]]:
    residual = small_model({"scheme": "multi-gate", **keys}).residual
    return [p.tolist() for name, p in residual.named_parameters() if name.endswith("gate_bias")]


def test_first_biases() -> None:
    """5 of 8 sublayers are gated with four streams of outputs: -ln(sqrt(5 / 21) (e³ + 1) - 4) = -1.839…; all 8 with
    four embeddings, whose biases are spread around -1.56…"""
    bias = -math.log(math.sqrt(5 / 21) * (math.exp(3) + 1) - 4)
    assert biases() == [[pytest.approx(bias)] * 4] * 5
    assert biases(gate_bias=-2.0) == [[-2.0] * 4] * 5
    middle = -math.log(math.sqrt(8 / 21) * (math.exp(3) + 1) - 4)
    spread = [middle + offset for offset in (1.5, 0.5, -0.5, -1.5)]
    assert biases(seeding="embedding") == [pytest.approx(spread)] * 8
    assert biases(seeding="embedding", gate_bias=0.0, bias_step=2.0) == [[3.0, 1.0, -1.0, -3.0]] * 8
    # the paper's reference point: 21 gated sublayers and one stream would have exactly -3
    from attnres_cli.residual.schemes.multi_gate import first_gate_bias

    assert first_gate_bias(21, 1) == pytest.approx(-3.0)


@torch.no_grad()
def test_starts_with_plain_means() -> None:
    """Queries are zero: sublayer 2 reads the mean of embedding and first two outputs, whatever their size."""
    model = small_model({"scheme": "multi-gate"})
    tokens, _ = tokens_and_targets()
    at = Pieces(model, tokens)
    first = at.f[0](at.norm[0](at.embedding))
    second = at.f[1](at.norm[1]((at.embedding + first) / 2))
    state = model.residual.open(at.embedding)
    for ordinal, output in enumerate((first, second)):
        _, state = model.residual.read(state, model.sites()[ordinal])
        state = model.residual.write(state, model.sites()[ordinal], output)
    expected = (at.embedding + first + second) / 3
    seen, _ = model.residual.read(state, model.sites()[2])
    torch.testing.assert_close(seen, at.norm[2](expected), rtol=0, atol=1e-12)
    torch.testing.assert_close(model.residual.stream(state), expected, rtol=0, atol=1e-12)
    found = model.residual.depth_weights(state, 2)
    assert found is not None
    names, weights = found
    assert names == ("stream 0", "stream 1", "stream 2")
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / 3))


@pytest.mark.parametrize("seeding", ["outputs", "embedding"])
def test_streams_do_not_stay_equal(seeding: str) -> None:
    model = small_model({"scheme": "multi-gate", "seeding": seeding})
    tokens, targets = tokens_and_targets()
    model.loss(tokens, targets).backward()
    gradient = model.residual.get_parameter("sites.7.gate_bias").grad
    assert gradient is not None
    assert len(set(gradient.tolist())) == 4
    assert gradient.abs().min() > 1e-3 * gradient.abs().max()


def test_parameters() -> None:
    """A query d at every site but the first and at the output; at every gated site d for the gate and n biases."""
    assert small_model({"scheme": "multi-gate"}).residual.own_parameters() == 8 * 16 + 5 * (16 + 4)
    embedding = small_model({"scheme": "multi-gate", "seeding": "embedding", "num_streams": 3}).residual
    assert embedding.own_parameters() == 8 * 16 + 8 * (16 + 3)


def test_flops() -> None:
    """Pooling 4 d per stream: 2 + 3 + 4 streams and then 6 times 4; mean squares of embedding and three outputs 2 d;
    5 × 4 changed streams, each 7 d."""
    flops = small_model({"scheme": "multi-gate"}).residual.cost().forward_flops_per_token
    assert flops == 4 * 16 * (2 + 3 + 6 * 4) + 2 * 16 * 4 + 5 * 4 * 7 * 16
    embedding = small_model({"scheme": "multi-gate", "seeding": "embedding"}).residual
    assert embedding.cost().forward_flops_per_token == 4 * 16 * 8 * 4 + 2 * 16 + 8 * 4 * 7 * 16


def test_depth_is_checked() -> None:
    with pytest.raises(UserError, match="num_streams = 9 leaves none of the 8 sublayers"):
        small_preset({"scheme": "multi-gate", "num_streams": 9})
    small_preset({"scheme": "multi-gate", "num_streams": 9, "seeding": "embedding"})
    with pytest.raises(UserError, match="no gate bias for 8 streams and 8 sublayers"):
        small_preset({"scheme": "multi-gate", "num_streams": 8})
    small_preset({"scheme": "multi-gate", "num_streams": 8, "gate_bias": -2.0})


def test_the_step_is_refused_where_it_does_nothing() -> None:
    with pytest.raises(UserError, match="bias_step"):
        small_preset({"scheme": "multi-gate", "bias_step": 2.0})
