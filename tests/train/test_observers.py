"""Observers against slow, obvious computations, and that they leave the model alone."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from attnres_cli import discovery
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.train.observation import PACKAGE, Probe, observe_all
from attnres_cli.train.observers import depth_weights, gradients, magnitudes
from tests.residual.slow_loop import block as slow_block
from tests.small import RESIDUALS, SCHEMES, small_model, tokens_and_targets

EVERY = SCHEMES | RESIDUALS
every_residual = pytest.mark.parametrize("residual", EVERY.values(), ids=EVERY.keys())


def probe() -> Probe:
    return Probe(*tokens_and_targets(), "fp32")


def slow_rms(values: torch.Tensor) -> float:
    flat = [float(x) for x in values.detach().flatten()]
    return math.sqrt(sum(x * x for x in flat) / len(flat))


def test_magnitudes_of_the_baseline() -> None:
    model = small_model()
    h = model.embedding(probe().tokens)
    stream, inputs, outputs, shares = [slow_rms(h)], [], [], []
    for layer in model.blocks:
        for norm, sublayer in ((layer.attention_norm, layer.attention), (layer.feed_forward_norm, layer.feed_forward)):
            y = sublayer(norm(h))
            inputs.append(slow_rms(h))
            outputs.append(slow_rms(y))
            shares.append(slow_rms(y) / slow_rms(h))
            h = h + y
        stream.append(slow_rms(h))
    summary = magnitudes.observe(model, probe()).summary
    for name, expected in {
        "stream_rms": stream,
        "input_rms": inputs,
        "output_rms": outputs,
        "update_share": shares,
    }.items():
        assert summary[name] == pytest.approx(expected, rel=1e-10), name


def test_the_stream_of_block_is_the_running_block_sum() -> None:
    """Bounded by construction: it starts again at every block boundary (the paper's Fig. 5b)."""
    model = small_model({"scheme": "attnres-block", "block_sublayers": 4}, stir=0.3)
    outputs: list[torch.Tensor] = []

    def remember(module: torch.nn.Module, args: Any, output: torch.Tensor) -> None:
        outputs.append(output)

    for layer in model.blocks:
        layer.attention.register_forward_hook(remember)
        layer.feed_forward.register_forward_hook(remember)
    found = magnitudes.observe(model, probe()).summary["stream_rms"]
    o = outputs
    sums = [o[0] + o[1], o[0] + o[1] + o[2] + o[3], o[4] + o[5], o[4] + o[5] + o[6] + o[7]]
    assert found == pytest.approx([slow_rms(model.embedding(probe().tokens)), *map(slow_rms, sums)], rel=1e-10)


@every_residual
def test_gradient_norms(residual: dict[str, Any]) -> None:
    model = small_model(residual, stir=0.3)
    found = gradients.observe(model, probe()).summary
    assert all(p.grad is None for p in model.parameters())
    (model.loss(probe().tokens, probe().targets) / probe().targets.numel()).backward()
    squares = [[float(p.grad.square().sum()) for p in b.parameters() if p.grad is not None] for b in model.blocks]
    expected = [math.sqrt(sum(each)) for each in squares]
    assert found["parameter_grad_norm"] == pytest.approx(expected, rel=1e-10)
    assert len(found["activation_grad_norm"]) == 4
    # The head of this one form does not see the stream of the figures.
    seen = found["activation_grad_norm"][: 3 if residual.get("final") == "post" else 4]
    assert all(value > 0 for value in seen)


def test_activation_gradient_of_the_baseline_by_finite_difference() -> None:
    """The stream after the last block reaches the loss through the final norm and the head alone."""
    model = small_model()
    p = probe()
    streams: list[torch.Tensor] = []

    class Last:
        def sublayer(self, site: Any, before: Any, x: Any, output: Any, after: Any) -> None:
            streams.append(after[0].detach())

        def close(self, state: Any, output: Any) -> None:
            pass

    model.walk(p.tokens, Last())
    h = streams[-1].requires_grad_()
    logits = torch.nn.functional.linear(model.final_norm(h), model.head_weight)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), p.targets.flatten())
    (gradient,) = torch.autograd.grad(loss, h)
    found = gradients.observe(model, p).summary["activation_grad_norm"][-1]
    assert found == pytest.approx(math.sqrt(float(gradient.square().sum())), rel=1e-10)


def test_depth_weights_of_block() -> None:
    model = small_model({"scheme": "attnres-block", "block_sublayers": 3}, stir=0.7)
    sublayers = []
    for layer in model.blocks:
        sublayers.append(lambda h, b=layer: b.attention(b.attention_norm(h)))
        sublayers.append(lambda h, b=layer: b.feed_forward(b.feed_forward_norm(h)))
    sites = [*model.residual.sites, model.residual.output]
    with torch.no_grad():
        _, alphas = slow_block(
            model.embedding(probe().tokens),
            sublayers,
            [s.query for s in sites],
            [s.key_gain for s in sites],
            1e-12,
            (3, 3, 2),
        )
    observation = depth_weights.observe(model, probe())
    assert observation is not None
    for site, alpha in zip(observation.summary["sites"], alphas, strict=True):
        mean = [float(row.mean()) for row in alpha]
        assert site["mean"] == pytest.approx(mean, rel=1e-10)
        assert len(site["sources"]) == len(mean)
        entropies = [-sum(float(a) * math.log(float(a)) for a in column) for column in alpha.flatten(1).T]
        assert site["entropy"] == pytest.approx(sum(entropies) / len(entropies), rel=1e-10, abs=1e-12)
        assert site["embedding_share"] == pytest.approx(mean[0])
        assert site["recent_share"] == pytest.approx(mean[-1])
        assert site["maximum"] == pytest.approx(max(mean))
    assert [site["kind"] for site in observation.summary["sites"]] == ["attention", "feed_forward"] * 4 + ["output"]


def test_the_baseline_has_no_depth_weights() -> None:
    assert depth_weights.observe(small_model(), probe()) is None


@every_residual
def test_observing_leaves_everything_as_it_was(tmp_path: Path, residual: dict[str, Any]) -> None:
    model = small_model(residual, stir=0.3)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    hooks = sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules())
    run = RunDirectory.create(tmp_path, "observed")
    observe_all(run, model, probe(), discovery.names(PACKAGE), 3, 192)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert hooks == sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules())
    for row in run.observations():
        assert row["step"] == 3
        for name, place in row["arrays"].items():
            array = load_file(run.probes_folder / place["file"])[place["key"]]
            assert list(array.shape) == place["shape"]
            if name in row["summary"]:
                assert array.tolist() == row["summary"][name]
    assert json.dumps(run.observations())
