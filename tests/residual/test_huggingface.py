"""`wrap_huggingface`: tiny Hugging Face models of random weights, before and after a residual scheme took them over."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.residual import UserError, scheme_names, wrap_huggingface
from tests.residual.huggingface_models import (
    KINDS,
    LAYERS,
    build,
    cache_name,
    exact,
    gradients,
    stir,
    tokens,
)

transformers = pytest.importorskip("transformers")

# ---- the wrapped model and the model itself


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_with_the_plain_residual_nothing_changes_by_a_bit(kind: str, dtype: torch.dtype) -> None:
    model = build(kind, dtype)
    expected = model(tokens()).logits
    wrap_huggingface(model, "prenorm")
    found = model(tokens()).logits
    assert found.dtype == dtype
    assert torch.equal(found, expected)


@pytest.mark.parametrize("keys", [{"scheme": "attnres-full"}, {"scheme": "attnres-block", "num_blocks": 3}], ids=str)
def test_oracle(keys: dict[str, Any]) -> None:
    """With zero queries and no epsilon, depth attention is the plain residual, in logits and in gradients."""
    model = exact(rms_norm_eps=0.0)
    expected, expected_gradients = model(tokens()).logits, gradients(model)
    residual = wrap_huggingface(model, **keys)
    torch.testing.assert_close(model(tokens()).logits, expected, rtol=0, atol=1e-10)
    found = gradients(model)
    for name, gradient in expected_gradients.items():
        torch.testing.assert_close(found[name], gradient, rtol=0, atol=1e-10, msg=name)
    stir(residual)
    assert (model(tokens()).logits - expected).abs().max() > 0.1


def test_block_attention_residuals_by_their_formula() -> None:
    """Two layers, blocks of one sublayer, walked by hand: h_l = Σ_i softmax_i(w_l · g_l ⊙ RMSNorm(v_i)) v_i."""
    model = exact(num_hidden_layers=2)
    inputs = model.model.embed_tokens(tokens())
    layers, final_norm = copy.deepcopy(model.model.layers), copy.deepcopy(model.model.norm)
    passed: list[dict[str, Any]] = []
    handle = model.model.layers[0].register_forward_pre_hook(
        lambda layer, args, kwargs: passed.append(kwargs), with_kwargs=True
    )
    model(tokens(), use_cache=False)
    handle.remove()
    residual = wrap_huggingface(model, "attnres-block", block_sublayers=1, norm_epsilon=0.01)
    stir(residual)

    def mixed(sources: list[Tensor], place: Any) -> Tensor:
        keys = [each / torch.sqrt((each**2).mean(-1, keepdim=True) + 0.01) for each in sources]
        logits = torch.stack([(key * place.key_gain * place.query).sum(-1) for key in keys])
        return sum(weight[..., None] * each for weight, each in zip(torch.softmax(logits, 0), sources, strict=True))

    sources, sites = [inputs], list(residual.sites)
    for number, layer in enumerate(layers):
        seen = layer.input_layernorm(mixed(sources, sites[2 * number]))
        sources = [*sources, layer.self_attn(seen, **passed[0])[0]]
        seen = layer.post_attention_layernorm(mixed(sources, sites[2 * number + 1]))
        sources = [*sources, layer.mlp(seen)]
    expected = final_norm(mixed(sources, residual.output))
    torch.testing.assert_close(model.model(tokens()).last_hidden_state, expected, rtol=0, atol=1e-10)


# ---- every scheme


REFUSED = r"acts on the q, k and v|gives the query, key and value of attention an input each"


@pytest.mark.parametrize("scheme", scheme_names())
def test_every_scheme_is_wrapped_whole_or_refused(scheme: str) -> None:
    """Cached decoding and gradients of every scheme that needs nothing but the output of attention."""
    model = build(dtype=torch.float32)
    names = set(model.state_dict())
    try:
        residual = wrap_huggingface(model, scheme)
    except UserError:
        with pytest.raises(UserError, match=REFUSED):
            wrap_huggingface(model, scheme)
        assert set(model.state_dict()) == names
        return
    stir(residual, 0.2)
    assert {name for name in model.state_dict() if not name.startswith("model.residual.")} == names
    cached, plain = (
        model.generate(tokens(), max_new_tokens=6, do_sample=False, use_cache=use) for use in (True, False)
    )
    assert torch.equal(cached, plain)
    with_gradient = {name for name, each in gradients(model).items() if torch.count_nonzero(each)}
    norms = [f"model.layers.{at // 2}.{('input', 'post_attention')[at % 2]}_layernorm.weight" for at in range(8)]
    norms.append("model.norm.weight")
    dead = {f"model.residual.{name}" for name in residual.dead_parameters()}
    dead |= {norms[ordinal] for ordinal in residual.unused_norms()}
    assert {name for name, _ in model.named_parameters()} - with_gradient == dead


def test_some_schemes_are_wrapped_and_some_are_refused() -> None:
    for scheme, words in {"value-residual": "acts on the q, k and v", "muddformer": "an input each"}.items():
        with pytest.raises(UserError, match=words):
            wrap_huggingface(build(), scheme)
    wrap_huggingface(build(), "hyper-connections")


# ---- generation


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Qwen3"])
def test_decoding_with_a_cache_is_recomputation(kind: str) -> None:
    model = exact(kind)
    stir(wrap_huggingface(model, "attnres-block", num_blocks=3))
    whole = model(tokens(), use_cache=False).logits
    first = model(tokens()[:, :5], use_cache=True)
    name = cache_name(model)
    rest = model(tokens()[:, 5:], **{name: first[name]}, use_cache=True)
    torch.testing.assert_close(torch.cat((first.logits, rest.logits), 1), whole, rtol=0, atol=1e-10)


def test_padding_on_the_left_changes_nothing() -> None:
    model = exact()
    stir(wrap_huggingface(model, "attnres-full"))
    padded = torch.cat((torch.zeros(2, 4, dtype=torch.long), tokens()), 1)
    mask = (torch.arange(13) >= 4).long().expand(2, -1)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    found = model(padded, attention_mask=mask, position_ids=positions).logits[:, 4:]
    torch.testing.assert_close(found, model(tokens()).logits, rtol=0, atol=1e-10)


# ---- what else transformers does with a model


def test_weights_are_saved_and_loaded(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    model = build(dtype=torch.float32)
    stir(wrap_huggingface(model, "attnres-block", num_blocks=2))
    model.save_pretrained(tmp_path)
    again = build(dtype=torch.float32)
    wrap_huggingface(again, "attnres-block", num_blocks=2)
    assert not torch.equal(again(tokens()).logits, model(tokens()).logits)
    again.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(again(tokens()).logits, model(tokens()).logits)


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_gives_the_same_gradients(reentrant: bool) -> None:
    model = exact().train()
    stir(wrap_huggingface(model, "attnres-block", num_blocks=3))
    expected = gradients(model)
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
    enable({"use_reentrant": reentrant})
    runs: list[int] = []
    model.model.layers[1].mlp.register_forward_hook(lambda *_: runs.append(1))
    found = gradients(model)
    assert len(runs) == 2
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=0, atol=1e-12, msg=name)


def test_gradient_checkpointing_takes_no_cache() -> None:
    model = build().train()
    wrap_huggingface(model, "attnres-full")
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    cache = transformers.DynamicCache(config=model.config)
    with pytest.raises(UserError, match="use_cache=False"):
        model(tokens(), **{cache_name(model): cache}, use_cache=False)


def test_hidden_states_are_the_stream() -> None:
    model = build()
    expected = model(tokens(), output_hidden_states=True).hidden_states
    wrap_huggingface(model, "prenorm")
    found = model(tokens(), output_hidden_states=True).hidden_states
    assert len(found) == len(expected) == LAYERS + 1
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert torch.equal(model.model.norm(found[2]), build().model.norm(found[2]))  # of a tensor, the norm is a norm


def test_half_precision_keeps_a_wide_state() -> None:
    model = build(dtype=torch.bfloat16)
    residual = wrap_huggingface(model, "attnres-full")
    assert {parameter.dtype for parameter in residual.parameters()} == {torch.float32}
    written: list[torch.dtype] = []
    write = residual.write
    residual.write = lambda state, site, output: (written.append(state[0].dtype), write(state, site, output))[1]
    assert model(tokens()).logits.dtype == torch.bfloat16
    assert written == [torch.float32] * 2 * LAYERS


def test_it_compiles_without_a_graph_break() -> None:
    model = build(dtype=torch.float32, num_hidden_layers=2)
    stir(wrap_huggingface(model, "attnres-block", num_blocks=2))
    compiled = torch.compile(model.model, backend="aot_eager", fullgraph=True)
    found = compiled(tokens(), use_cache=False).last_hidden_state
    torch.testing.assert_close(found, model.model(tokens()).last_hidden_state, rtol=1e-5, atol=1e-5)


def test_a_copy_stands_alone() -> None:
    model = build()
    stir(wrap_huggingface(model, "attnres-block", num_blocks=2))
    expected = model(tokens()).logits
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(twin(tokens()).logits, expected)
