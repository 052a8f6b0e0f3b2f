"""The logit lens against models that are really closed early, one token at a time."""

from __future__ import annotations

import math

import pytest
import torch

from attnres_cli.analysis.paired import t_quantile
from attnres_cli.probe.probes import lens
from tests.probe.walked import SCHEMES, all_tokens, losses, subject, walk
from tests.small import EVERY, small_model


@pytest.mark.parametrize("name", SCHEMES)
def test_the_ends_are_the_embedding_and_the_whole_model(name: str) -> None:
    seen = subject(name)
    tokens, targets = all_tokens(seen)
    found = lens.measure(seen).arrays
    with torch.no_grad():
        whole = losses(seen.model, walk(seen.model, tokens).closed, targets)
    assert found["loss_after_block"][-1] == pytest.approx(sum(whole) / 3, rel=1e-10)
    assert found["loss_after_block_low"][-1] == found["loss_after_block_high"][-1] == found["loss_after_block"][-1]
    assert all(math.isfinite(value) for array in found.values() for value in array)


def test_of_the_baseline_between_the_ends() -> None:
    seen = subject("prenorm")
    model, (tokens, targets) = seen.model, all_tokens(seen)
    found = lens.measure(seen).arrays
    with torch.no_grad():
        reference = walk(model, tokens)
        whole = losses(model, reference.closed, targets)
        for k, stream in enumerate(reference.streams):
            gain = model.final_norm.gain
            scaled = stream / (stream.square().mean(-1, keepdim=True) + model.final_norm.epsilon).sqrt() * gain
            closed = losses(model, scaled, targets)
            assert found["loss_after_block"][k] == pytest.approx(sum(closed) / 3, rel=1e-10)
            differences = [a - b for a, b in zip(closed, whole, strict=True)]
            mean = sum(differences) / 3
            deviation = math.sqrt(sum((each - mean) ** 2 for each in differences) / 2)
            half = t_quantile(0.95, 2) * deviation / math.sqrt(3)
            assert found["loss_after_block_high"][k] == pytest.approx(sum(closed) / 3 + half, rel=1e-9)


@pytest.mark.parametrize("name", ["full", "3 blocks", "highway", "hyper-connections", "postnorm", "delta-attnres"])
def test_a_shallower_model_with_the_same_weights_says_the_same(name: str) -> None:
    """Closed after two of four blocks: a model of two blocks that has these weights, and the whole one's output."""
    seen = subject(name)
    model, (tokens, targets) = seen.model, all_tokens(seen)
    residual = dict(EVERY[name])
    if "num_blocks" in residual:
        residual = {"scheme": residual["scheme"], "block_sublayers": 2}  # of eight sublayers in three blocks
    shallow = small_model(residual, dtype=torch.float64, **{"model.transformer_blocks": 2})
    weights = model.state_dict()
    own = {key: weights[key] for key in shallow.state_dict() if key in weights}
    shallow.load_state_dict(own)
    with torch.no_grad():
        expected = losses(model, shallow.walk(tokens), targets)
    assert lens.measure(seen).arrays["loss_after_block"][2] == pytest.approx(sum(expected) / 3, rel=1e-9)


def test_denseformer_closes_with_the_average_after_the_block() -> None:
    seen = subject("denseformer")
    model, (tokens, targets) = seen.model, all_tokens(seen)
    with torch.no_grad():
        outputs = model.states(tokens)[4]  # X_0, X_1, X_2
        weights = model.residual.averages[1].weights
        average = sum(float(w) * x for w, x in zip(weights, outputs, strict=True))
        expected = losses(model, model.final_norm(average), targets)
    assert lens.measure(seen).arrays["loss_after_block"][2] == pytest.approx(sum(expected) / 3, rel=1e-10)


def test_queries_that_are_numbers_keep_those_of_the_sources_there_are() -> None:
    found = lens.measure(subject("scalars")).arrays["loss_after_block"]
    assert all(map(math.isfinite, found))


@pytest.mark.parametrize(
    ("by_block", "depth"),
    [
        ([5.0, 3.0, 1.1, 1.0], 2),  # 95 % of 4 nats is at 1.2
        ([5.0, 1.2, 1.1, 1.0], 1),
        ([5.0, 1.1, 3.0, 1.0], 3),  # the loss rises again: it has to stay
        ([5.0, 5.1, 5.2, 5.3], None),
        ([5.0, 5.0, 5.0, 5.0], None),
    ],
)
def test_depth_at_95_percent(by_block: list[float], depth: int | None) -> None:
    found = lens.reached(by_block)
    assert found["depth_at_95_percent"] == depth
    assert found["share_of_depth_at_95_percent"] == (None if depth is None else depth / 3)
