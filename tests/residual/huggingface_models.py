"""Tiny Hugging Face models of random weights. Whoever imports this is skipped where transformers is not installed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

transformers = pytest.importorskip("transformers")

VOCABULARY, LAYERS, WIDTH = 31, 4, 32
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
    # so that a sublayer's output is about as large as the stream
    "initializer_range": 0.2,
}
# Qwen2 with a sliding window in its last two layers: masks differ from layer to layer.
KINDS: dict[str, Callable[..., Any]] = {
    "Llama": lambda **changes: ("Llama", SIZES | changes),
    "Qwen2": lambda **changes: (
        "Qwen2",
        SIZES | {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 2} | changes,
    ),
    "Qwen3": lambda **changes: ("Qwen3", SIZES | {"head_dim": 10} | changes),
    "Mixtral": lambda **changes: ("Mixtral", SIZES | {"num_local_experts": 4} | changes),
}


def build(kind: str = "Llama", dtype: torch.dtype = torch.float64, **changes: Any) -> Any:
    """A small causal model of this kind with random weights, norm gains included, for evaluation."""
    name, sizes = KINDS[kind](**changes) if kind in KINDS else (kind, SIZES | changes)
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**sizes)).to(dtype)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if "norm" in path:
                parameter += 0.3 * torch.randn(parameter.shape, dtype=dtype)
    return model.eval()


def exact(kind: str = "Llama", **changes: Any) -> Any:
    """The same in float64, with PyTorch's norms: those of transformers round to float32 on the way."""
    model = build(kind, **changes)
    for path, module in list(model.named_modules()):
        if "norm" in path:
            norm = nn.RMSNorm(module.weight.numel(), module.variance_epsilon, dtype=torch.float64)
            norm.load_state_dict(module.state_dict())
            model.set_submodule(path, norm)
    return model.eval()


def stir(residual: nn.Module, size: float = 0.4) -> None:
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in residual.parameters():
            parameter += size * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)


def tokens(length: int = 9) -> Tensor:
    return torch.randint(3, VOCABULARY, (2, length), generator=torch.Generator().manual_seed(3))


def cache_name(model: Any) -> str:
    """What this version of transformers calls the key/value cache."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def gradients(model: Any, **inputs: Any) -> dict[str, Tensor]:
    model.zero_grad()
    model(tokens(), labels=tokens(), **inputs).loss.backward()
    return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
