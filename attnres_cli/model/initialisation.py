"""Initial weights. Every parameter is drawn from (seed, its own name), never from one running generator.

So two models with the same seed share every parameter of the same name bit for bit, whatever else they contain.

    embedding, head, qkv, gate_up     N(0, init_std)
    output, down (write the stream)   N(0, init_std / sqrt(2 L_b))
    norm gains                        1
    a scheme's own parameters         what the scheme says, and it says so last

A scheme may scale a role's standard deviation (`Residual.sublayer_gain`); no projection starts at zero.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from attnres_cli.model.rotary import Rotary
from attnres_cli.model.sublayer import MatrixSpec, Sublayer
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.norm import RMSNorm


@torch.no_grad()
def initialise(model: LanguageModel, seed: int) -> None:
    """Set every parameter and table of `model` in place; the same on every device and for every dtype up to
    rounding."""
    if (
        model.embedding.weight.is_meta
    ):  # no values there; meta arithmetic would import the compiler, which takes seconds
        return
    config = model.config
    std = config.init_std
    _draw("embedding.weight", model.embedding.weight, std, seed)
    if model.head is not None:
        _draw("head.weight", model.head.weight, std, seed)
    for module in model.modules():
        if isinstance(module, RMSNorm):
            module.gain.fill_(1.0)
        elif isinstance(module, Rotary):
            module.fill(model.embedding.weight.dtype)
    for name, parameter, spec in _sublayer_matrices(model):
        _draw(name, parameter, _std(model, spec), seed)
        rows = torch.split(parameter, list(spec.split_rows or parameter.shape[:1]))
        for role, matrix in zip(spec.roles, rows, strict=True):
            gain = model.residual.sublayer_gain(role)
            if gain != 1.0:
                matrix.mul_(gain)
    for name, parameter in model.residual.named_parameters():
        model.residual.initialise(name, parameter, _generator(f"residual.{name}", seed))


@torch.no_grad()
def common_weights_hash(model: LanguageModel, seed: int) -> str:
    """SHA-256 over the parameters that every scheme has, names included: equal for two fair arms before training.

    Of a matrix that the scheme scales (`Residual.sublayer_gain`) the draw counts and not the gain, which belongs to the
    scheme.
    """
    unscaled: dict[str, Tensor] = {}
    for name, parameter, spec in _sublayer_matrices(model):
        if any(model.residual.sublayer_gain(role) != 1.0 for role in spec.roles):
            unscaled[name] = torch.empty_like(parameter, device="cpu")
            _draw(name, unscaled[name], _std(model, spec), seed)
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        if not name.startswith("residual."):
            digest.update(name.encode())
            weights = unscaled.get(name, parameter.detach()).cpu().contiguous()
            digest.update(weights.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _sublayer_matrices(model: LanguageModel) -> Iterator[tuple[str, nn.Parameter, MatrixSpec]]:
    """(name in the state dict, parameter, what it is) of every weight matrix of attention and feed-forward."""
    for path, module in model.named_modules():
        if isinstance(module, Sublayer):
            for name, spec in module.matrices().items():
                yield f"{path}.{name}", module.get_parameter(name), spec


def _std(model: LanguageModel, spec: MatrixSpec) -> float:
    return model.config.init_std / (math.sqrt(model.config.num_sublayers) if spec.writes_residual else 1.0)


def _draw(name: str, parameter: Tensor | nn.Parameter, std: float, seed: int) -> None:
    parameter.copy_(torch.empty(parameter.shape).normal_(0.0, std, generator=_generator(name, seed)))


def _generator(name: str, seed: int) -> torch.Generator:
    key = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(key[:8], "little") >> 1)
