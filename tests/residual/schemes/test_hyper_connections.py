"""Hyper-connections against their formula: the streams one by one, every weight for itself."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnres_cli.errors import UserError
from attnres_cli.model.trunk import LanguageModel
from tests.residual.trunk_pieces import Pieces, assert_walks_as, rms_norm, stirred
from tests.small import small_model, small_preset, tokens_and_targets

BOTH = pytest.mark.parametrize("dynamic", [True, False])


def walk(model: LanguageModel, at: Pieces, n: int, dynamic: bool) -> Tensor:
    """h_in = Σ_i A_m[i] H_i; H'_j = B_j f(Norm(h_in)) + Σ_i A_r[i, j] H_i; the head sees the sum of the streams."""
    own = model.residual.get_parameter
    streams = [at.embedding] * n
    for ordinal in range(8):

        def static(name: str, ordinal: int = ordinal) -> Tensor:
            return own(f"sites.{ordinal}.{name}")

        normed = [rms_norm(stream, None, at.epsilon) for stream in streams]

        def moved(
            i: int, name: str, column: int, scale: str, ordinal: int = ordinal, normed: list[Tensor] = normed
        ) -> Tensor | float:
            if not dynamic:
                return 0.0
            matrix = own(f"sites.{ordinal}.{name}_projection")
            logit = (normed[i] * matrix[:, column]).sum(-1, keepdim=True)
            return own(f"sites.{ordinal}.{scale}") * torch.tanh(logit)

        if ordinal == 0:  # n equal streams, whose factor the norm takes away
            seen = at.embedding
        else:
            seen = sum((static("read")[i] + moved(i, "read", 0, "mixing_scale")) * streams[i] for i in range(n))  # type: ignore[assignment]
        output = at.f[ordinal](at.norm[ordinal](seen))
        new = []
        for j in range(n):
            stream = (static("write")[j] + moved(j, "write", 0, "write_scale")) * output
            for i in range(n):
                stream = stream + (static("carry")[i, j] + moved(i, "carry", j, "mixing_scale")) * streams[i]
            new.append(stream)
        streams = new
    total = streams[0]
    for stream in streams[1:]:
        total = total + stream
    return at.final_norm(total)


@torch.no_grad()
@BOTH
@pytest.mark.parametrize("n", [2, 4])
def test_against_the_formula(dynamic: bool, n: int) -> None:
    model, at, tokens = stirred({"scheme": "hyper-connections", "dynamic": dynamic, "num_streams": n})
    assert_walks_as(model, tokens, walk(model, at, n, dynamic))


@torch.no_grad()
@pytest.mark.parametrize("scale", ["write_scale", "mixing_scale"])
def test_each_scale_rules_its_own_part(scale: str) -> None:
    """With both scales at zero the dynamic weights are the static ones; each scale then changes something."""
    model, at, tokens = stirred({"scheme": "hyper-connections"})
    for ordinal in range(8):
        for name in ("write_scale", "mixing_scale"):
            model.residual.get_parameter(f"sites.{ordinal}.{name}").zero_()
    assert_walks_as(model, tokens, walk(model, at, 4, dynamic=False))
    before = model(tokens)
    model.residual.get_parameter(f"sites.3.{scale}").fill_(0.5)
    assert (model(tokens) - before).abs().max() > 1e-4


@torch.no_grad()
@BOTH
@pytest.mark.parametrize("n", [2, 3, 4])
def test_starts_as_the_baseline(dynamic: bool, n: int) -> None:
    tokens, _ = tokens_and_targets()
    model = small_model(
        {"scheme": "hyper-connections", "dynamic": dynamic, "num_streams": n}, **{"model.norm_epsilon": 0.0}
    )
    baseline = small_model(**{"model.norm_epsilon": 0.0})
    torch.testing.assert_close(model(tokens), baseline(tokens), rtol=0, atol=1e-12)


@torch.no_grad()
def test_first_values() -> None:
    model = small_model({"scheme": "hyper-connections", "num_streams": 3})
    own = dict(model.residual.named_parameters())
    one_hot = torch.eye(3, dtype=torch.float64)
    for ordinal in range(8):
        assert torch.equal(own[f"sites.{ordinal}.carry"], one_hot)
        assert own[f"sites.{ordinal}.write"].eq(1).all()
        assert own[f"sites.{ordinal}.mixing_scale"] == own[f"sites.{ordinal}.write_scale"] == 0.01
        assert not own[f"sites.{ordinal}.carry_projection"].any()
        assert not own[f"sites.{ordinal}.write_projection"].any()
        if ordinal:
            assert torch.equal(own[f"sites.{ordinal}.read"], one_hot[ordinal % 3])
            assert not own[f"sites.{ordinal}.read_projection"].any()
    assert "sites.0.read" not in own


def test_parameters() -> None:
    """Per sublayer n (n + 2) static numbers, d (n + 2) dynamic ones and two scales; n and d fewer at the first."""
    static = small_model({"scheme": "hyper-connections", "dynamic": False}).residual
    assert static.own_parameters() == 8 * 4 * 6 - 4
    dynamic = small_model({"scheme": "hyper-connections"}).residual
    assert dynamic.own_parameters() == 8 * (4 * 6 + 16 * 6 + 2) - 4 - 16
    assert small_model({"scheme": "hyper-connections", "num_streams": 2}).residual.own_parameters() == (
        8 * (2 * 4 + 16 * 4 + 2) - 2 - 16
    )


def test_decay_takes_the_dynamic_matrices_alone() -> None:
    groups = small_model({"scheme": "hyper-connections"}).residual.parameter_groups()
    assert {name for name, group in groups.items() if group.weight_decay} == {
        name for name in groups if name.endswith("_projection")
    }


def test_flops() -> None:
    """n = 4, d = 16: reading 2 n d at 7 sites, carrying 2 n² d and writing 2 n d at 8, the sum of streams (n - 1) d;
    dynamic also 2 n d for the mean squares and each of 6 products, one fewer at the first site."""
    static = 7 * 128 + 8 * (512 + 128) + 48
    config = {"scheme": "hyper-connections", "dynamic": False}
    assert small_model(config).residual.cost().forward_flops_per_token == static
    assert small_model({"scheme": "hyper-connections"}).residual.cost().forward_flops_per_token == (
        static + 128 * (7 * 8 - 1)
    )


@pytest.mark.parametrize("scheme", ["hyper-connections", "mhc", "mhc-lite"])
def test_streams_stay_wide_under_autocast(scheme: str) -> None:
    """bfloat16 would show as a difference of 2^-8; sublayers' own products are bfloat16 in both."""
    model = small_model({"scheme": scheme}, dtype=torch.float32, stir=0.3)
    tokens, _ = tokens_and_targets()
    site = model.sites()[1]
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        streams = torch.randn(2, 12, 4, 16, generator=torch.Generator().manual_seed(1))
        output = torch.randn(2, 12, 16, generator=torch.Generator().manual_seed(2)).bfloat16()
        x, state = model.residual.read((streams,), site)
        (after,) = model.residual.write(state, site, output)
        assert model.walk(tokens).dtype == torch.float32
    with torch.no_grad():
        expected_x, state = model.residual.read((streams,), site)
        (expected,) = model.residual.write(state, site, output)
    assert after.dtype == torch.float32
    assert isinstance(x, Tensor)
    assert isinstance(expected_x, Tensor)
    torch.testing.assert_close(x, expected_x, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(after, expected, rtol=1e-6, atol=1e-6)


def test_one_stream_is_refused() -> None:
    with pytest.raises(UserError, match="num_streams = 1 is out of range"):
        small_preset({"scheme": "hyper-connections", "num_streams": 1})


@torch.no_grad()
def test_the_stream_in_figures_is_the_mean() -> None:
    residual = small_model({"scheme": "hyper-connections", "num_streams": 2}).residual
    one, other = torch.ones(1, 1, 16), torch.full((1, 1, 16), 3.0)
    assert torch.equal(residual.stream((torch.stack([one, other], -2),)), torch.full((1, 1, 16), 2.0))
