"""A residual scheme in a Hugging Face decoder of the Llama kind: Llama, Mistral, Qwen2, Qwen3 and their relatives.

The model is changed in place. Its layers keep their parts, and these keep their names in the state dict; what passes
from layer to layer is no longer the stream alone but the scheme's whole state:

    layer       (stream, *state) → (stream, *state) through attention and MLP; the first one opens from the embedding
    final norm  (stream, *state) → what the head sees, by the scheme's `close`; a tensor is normalised as ever

stream [B, T, d] is what `Residual.stream` says, in the embedding's dtype: transformers records it as the layer's hidden
state. The state itself stays as wide as the scheme wants it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnres_cli.errors import UserError
from attnres_cli.residual.drop_in import DEFAULT_EPSILON, acts_on_projections, make_residual, sites
from attnres_cli.residual.precision import wide
from attnres_cli.residual.protocol import Residual, Site, State

PARTS = ("input_layernorm", "self_attn", "post_attention_layernorm", "mlp")
# What transformers calls the key/value cache, from version to version.
CACHES = ("cache", "past_key_values", "past_key_value", "layer_past")

Passed = tuple[Tensor, ...]


class Place(NamedTuple):
    """What a layer has to know. A tuple, so that PyTorch registers the scheme once, in the decoder, and not here."""

    residual: Residual
    attention: Site
    feed_forward: Site


class Closing(NamedTuple):
    """What the final norm has to know. own_forward: what it does with a tensor."""

    residual: Residual
    own_forward: Callable[[nn.Module, Tensor], Tensor]


def wrap_huggingface(
    model: nn.Module, scheme: str, *, norm_epsilon: float | None = None, seed: int = 0, **keys: Any
) -> Residual:
    """Give `model` (…ForCausalLM, or the decoder in it) this scheme, in place; returns the scheme.

    Its parameters are those of `<decoder>.residual`, in at least float32; all other names in the state dict stay.
    norm_epsilon: of the scheme's own norms; without it the model's. seed, keys: as of `make_residual`.
    Raises UserError where the layers are not of the Llama kind, or the scheme needs more of attention than its output.
    """
    decoder = _decoder(model)
    layers: list[Any] = list(decoder.layers)
    _check_parts(layers)
    config = decoder.config
    residual = make_residual(
        scheme,
        d_model=config.hidden_size,
        num_sublayers=2 * len(layers),
        num_heads=config.num_attention_heads,
        num_kv_heads=getattr(config, "num_key_value_heads", None),
        head_dim=getattr(config, "head_dim", None),
        norm_epsilon=getattr(config, "rms_norm_eps", DEFAULT_EPSILON) if norm_epsilon is None else norm_epsilon,
        seed=seed,
        **keys,
    )
    _check_needs(residual, scheme)
    _check_formula(decoder, layers)
    weight = decoder.norm.weight
    decoder.residual = residual.to(device=weight.device, dtype=wide(weight.dtype))
    places = sites(norm for layer in layers for norm in (layer.input_layernorm, layer.post_attention_layernorm))
    changed = {original: _with_forward(original, _layer_forward) for original in map(type, layers)}
    for layer, attention, feed_forward in zip(layers, places[0::2], places[1::2], strict=True):
        layer.residual_place = Place(residual, attention, feed_forward)
        layer.__class__ = changed[type(layer)]
    decoder.norm.residual_closing = Closing(residual, type(decoder.norm).forward)
    decoder.norm.__class__ = _with_forward(type(decoder.norm), _norm_forward)
    return residual


# ---- the forward passes that take the place of the model's own


def _layer_forward(layer: Any, hidden_states: Tensor | Passed, **kwargs: Any) -> Passed:
    residual = layer.residual_place.residual
    if isinstance(hidden_states, Tensor):
        dtype, state = hidden_states.dtype, residual.open(hidden_states)
    else:
        dtype, state = hidden_states[0].dtype, hidden_states[1:]
    through = partial(_through, layer, dtype, kwargs)
    if getattr(layer, "gradient_checkpointing", False) and layer.training and torch.is_grad_enabled():
        held = [name for name in CACHES if kwargs.get(name) is not None]
        if held:
            raise UserError(
                f"Gradient checkpointing computes a layer twice and cannot fill {held[0]}: use_cache=False."
            )
        state = layer._gradient_checkpointing_func(through, *state)
    else:
        state = through(*state)
    return (residual.stream(state).to(dtype), *state)


def _through(layer: Any, dtype: torch.dtype, kwargs: dict[str, Any], *state: Tensor) -> State:
    """The state after both sublayers; their inputs come in `dtype`, which their weights expect."""
    residual, attention, feed_forward = layer.residual_place
    x, state = residual.read(state, attention)
    state = residual.write(state, attention, _first(layer.self_attn(hidden_states=x.to(dtype), **kwargs)))
    x, state = residual.read(state, feed_forward)
    after: State = residual.write(state, feed_forward, _first(layer.mlp(x.to(dtype))))
    return after


def _norm_forward(norm: Any, hidden_states: Tensor | Passed) -> Tensor:
    closing: Closing = norm.residual_closing
    if isinstance(hidden_states, Tensor):
        return closing.own_forward(norm, hidden_states)
    stream, *state = hidden_states
    return closing.residual.close(tuple(state), norm).to(stream.dtype)


def _first(output: Any) -> Tensor:
    """Attention answers with its output and its weights; some feed-forwards with their router's logits."""
    first: Tensor = output[0] if isinstance(output, tuple) else output
    return first


def _with_forward(original: type[nn.Module], forward: Callable[..., Any]) -> Any:
    """A subclass that computes by `forward`; transformers still finds the original by isinstance.

    Set after the class is made, and `__call__` with it: transformers wraps them in a checkpoint of one tensor, past
    which the gradients of a whole state would be lost.
    """
    changed: Any = type(f"Residual{original.__name__}", (original,), {})
    changed.forward = forward
    changed.__call__ = nn.Module.__call__
    return changed


# ---- what can be wrapped


def _decoder(model: nn.Module) -> Any:
    try:
        pretrained: type = importlib.import_module("transformers").PreTrainedModel
    except ImportError:
        raise UserError("transformers is not installed: pip install 'attnres-cli[hf]'") from None
    decoder: Any = model if hasattr(model, "layers") else getattr(model, "model", None)
    if not isinstance(model, pretrained) or not all(hasattr(decoder, part) for part in ("layers", "norm", "config")):
        raise UserError(f"{type(model).__name__} is no transformers model with decoder layers and a final norm.")
    if hasattr(decoder, "residual"):
        raise UserError(f"{type(model).__name__} has a residual scheme already; wrap a new model.")
    if len({parameter.device for parameter in model.parameters()}) > 1:
        raise UserError(f"{type(model).__name__} is spread over several devices; wrap it on one.")
    return decoder


def _check_parts(layers: list[nn.Module]) -> None:
    for number, layer in enumerate(layers):
        found = {name for name, _ in layer.named_children()}
        if found != set(PARTS):
            raise UserError(
                f"Layer {number} ({type(layer).__name__}) consists of {', '.join(sorted(found))}; "
                f"only layers of exactly {', '.join(PARTS)} can be wrapped."
            )


@torch.no_grad()
def _check_needs(residual: Residual, scheme: str) -> None:
    """Walk one token through depth: every sublayer must be content with one input."""
    if acts_on_projections(residual):
        raise UserError(
            f"The scheme '{scheme}' acts on the q, k and v inside of attention, which transformers does not hand out; "
            "use it in a model of your own."
        )
    width, depth = residual.geometry.d_model, residual.geometry.num_sublayers
    token = torch.ones(1, 1, width)
    state = residual.open(token)
    norm = nn.RMSNorm(width)
    for site in sites([norm] * depth):
        x, state = residual.read(state, site)
        if not isinstance(x, Tensor):
            raise UserError(
                f"The scheme '{scheme}' gives the query, key and value of attention an input each, and transformers "
                "takes one; use it in a model of your own."
            )
        state = residual.write(state, site, token)


@torch.no_grad()
def _check_formula(decoder: Any, layers: list[nn.Module]) -> None:
    """Show the model four tokens: each layer must be h ← h + attention(norm(h)), h ← h + mlp(norm(h)), no more."""

    def compare(number: int, layer: Any, args: tuple[Tensor, ...], kwargs: dict[str, Any], output: Any) -> None:
        middle = args[0] + _first(layer.self_attn(hidden_states=layer.input_layernorm(args[0]), **kwargs))
        expected = middle + _first(layer.mlp(layer.post_attention_layernorm(middle)))
        update, error = expected - args[0], expected - _first(output)
        if error.norm() > 1e-2 * update.norm():  # a factor or a term of the model's own is larger, rounding smaller
            raise UserError(
                f"Layer {number} ({type(layer).__name__}) computes something else than x + attention(norm(x)) and "
                "x + mlp(norm(x)), and so its residual connection cannot be replaced."
            )

    weight = decoder.norm.weight
    if weight.is_meta:
        return
    tokens = torch.randn(1, 4, decoder.config.hidden_size, generator=torch.Generator().manual_seed(0))
    training = {module: module.training for module in decoder.modules()}
    decoder.eval()
    hooks = [
        layer.register_forward_hook(partial(compare, number), with_kwargs=True) for number, layer in enumerate(layers)
    ]
    try:
        decoder(inputs_embeds=tokens.to(weight), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
        for module, was in training.items():
            module.training = was
