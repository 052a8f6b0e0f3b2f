"""`wrap_huggingface`: what it says and checks before it changes anything."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import nn

from attnres_cli.residual import UserError, make_residual, wrap_huggingface
from tests.residual.huggingface_models import (
    LAYERS,
    SIZES,
    WIDTH,
    build,
    tokens,
)

transformers = pytest.importorskip("transformers")


def test_keys_and_sizes_reach_the_scheme() -> None:
    model = build("Qwen3", rms_norm_eps=0.25)
    residual = wrap_huggingface(model, "attnres-block", num_blocks=2, gain=False)
    assert residual is model.model.residual
    assert residual.num_blocks() == 2
    geometry = residual.geometry
    assert (geometry.d_model, geometry.num_sublayers, geometry.norm_epsilon) == (WIDTH, 2 * LAYERS, 0.25)
    assert (geometry.num_heads, geometry.num_kv_heads, geometry.head_dim) == (4, 2, 10)
    assert {parameter.dtype for parameter in residual.parameters()} == {torch.float64}


def test_the_seed_is_that_of_make_residual() -> None:
    residual = wrap_huggingface(build(dtype=torch.float32), "laurel", seed=4)
    made = make_residual("laurel", d_model=WIDTH, num_sublayers=2 * LAYERS, seed=4)
    assert all(torch.equal(value, made.state_dict()[name]) for name, value in residual.state_dict().items())


def test_the_decoder_alone_is_wrapped_too() -> None:
    model = build()
    expected = model.model(tokens()).last_hidden_state
    wrap_huggingface(model.model, "prenorm")
    assert torch.equal(model.model(tokens()).last_hidden_state, expected)


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("Gemma2", {"head_dim": 8}, r"Layer 0 \(Gemma2DecoderLayer\) consists of .*pre_feedforward_layernorm"),
        ("Granite", {"residual_multiplier": 0.9}, r"Layer 0 \(GraniteDecoderLayer\) computes something else"),
        ("Phi3", {}, r"Layer 0 \(Phi3DecoderLayer\) consists of .*resid_mlp_dropout"),
    ],
)
def test_layers_of_another_kind_are_refused(kind: str, changes: dict[str, Any], said: str) -> None:
    model = build(kind, **changes)
    expected = model(tokens()).logits
    with pytest.raises(UserError, match=said):
        wrap_huggingface(model, "prenorm")
    assert torch.equal(model(tokens()).logits, expected)


def test_what_is_no_such_model_is_refused() -> None:
    with pytest.raises(UserError, match="Linear is no transformers model"):
        wrap_huggingface(nn.Linear(2, 2), "prenorm")
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_embd=8, n_head=1, vocab_size=9))
    with pytest.raises(UserError, match="GPT2LMHeadModel is no transformers model"):
        wrap_huggingface(gpt2, "prenorm")
    model = build()
    with pytest.raises(UserError, match="Did you mean 'num_blocks'"):
        wrap_huggingface(model, "attnres-block", num_block=2)
    wrap_huggingface(model, "prenorm")
    with pytest.raises(UserError, match="has a residual scheme already"):
        wrap_huggingface(model, "prenorm")


def test_the_check_leaves_modes_and_hooks_alone() -> None:
    model = build(attention_dropout=0.5).train()
    model.model.layers[1].eval()
    modes = {name: module.training for name, module in model.named_modules()}
    wrap_huggingface(model, "prenorm")
    assert {name: module.training for name, module in model.named_modules() if name in modes} == modes
    assert not any(layer._forward_hooks for layer in model.model.layers)


def test_a_model_without_memory_is_wrapped_too() -> None:
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    residual = wrap_huggingface(model, "attnres-block", num_blocks=2)
    assert all(parameter.is_meta for parameter in residual.parameters())


def test_without_transformers_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build()
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UserError, match=r"pip install 'attnres-cli\[hf\]'"):
        wrap_huggingface(model, "prenorm")
