"""Structural counts: parameters and FLOPs, walked off the modules, so that no formula can go stale.

Multiply-add = 2 FLOPs; causal attention counts T / 2 keys; backward = 2 × forward; recomputation is not counted; the
embedding lookup costs nothing and the head counts once, tied or not.
"""

from __future__ import annotations

from attnres_cli.model.sublayer import Sublayer
from attnres_cli.model.trunk import LanguageModel


def parameters_by_part(model: LanguageModel) -> dict[str, int]:
    """Parameters of embedding, attention, feed_forward, norms, head (0 where tied) and residual; they sum to the
    total."""
    parts = dict.fromkeys(("embedding", "attention", "feed_forward", "norms", "head", "residual"), 0)
    for name, parameter in model.named_parameters():
        parts[_part(name)] += parameter.numel()
    total = sum(parameter.numel() for parameter in model.parameters())
    assert sum(parts.values()) == total, (parts, total)
    return parts


def non_embedding_parameters(model: LanguageModel) -> int:
    """All parameters but the embedding and an untied head."""
    parts = parameters_by_part(model)
    return sum(parts.values()) - parts["embedding"] - parts["head"]


def forward_flops_per_token(model: LanguageModel, context_tokens: int) -> dict[str, float]:
    """Forward FLOPs per token by part, averaged over a sequence of `context_tokens`; `residual` is the depth mixing."""
    parts = {"embedding": 0.0, "attention": 0.0, "feed_forward": 0.0}
    for path, module in model.named_modules():
        if isinstance(module, Sublayer):
            parts[path.rsplit(".", 1)[-1]] += module.forward_flops_per_token(context_tokens)
    parts["head"] = 2.0 * model.head_weight.numel()
    parts["residual"] = model.residual.cost().forward_flops_per_token
    return parts


def training_flops_per_token(model: LanguageModel, context_tokens: int) -> float:
    """Forward and backward: 3 × forward."""
    return 3.0 * sum(forward_flops_per_token(model, context_tokens).values())


def _part(name: str) -> str:
    if name.startswith(("embedding.", "head.", "residual.")):
        return name.split(".", 1)[0]
    if "norm" in name.split(".")[-2]:
        return "norms"
    return name.split(".")[2]
