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

import torch
from torch import Tensor, nn

from attnres_cli.model.norm import RMSNorm
from attnres_cli.model.rotary import Rotary
from attnres_cli.model.sublayer import Sublayer
from attnres_cli.model.trunk import LanguageModel


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
    for path, module in model.named_modules():
        if isinstance(module, RMSNorm):
            module.gain.fill_(1.0)
        elif isinstance(module, Rotary):
            module.fill(model.embedding.weight.dtype)
        elif isinstance(module, Sublayer):
            for name, spec in module.matrices().items():
                shrink = math.sqrt(config.num_sublayers) if spec.writes_residual else 1.0
                gain = model.residual.sublayer_gain(spec.role)
                _draw(f"{path}.{name}", module.get_parameter(name), gain * std / shrink, seed)
    for name, parameter in model.residual.named_parameters():
        model.residual.initialise(name, parameter)


def common_weights_hash(model: LanguageModel) -> str:
    """SHA-256 over the parameters that every scheme has, names included: equal for two fair arms before training."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        if not name.startswith("residual."):
            digest.update(name.encode())
            digest.update(parameter.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _draw(name: str, parameter: Tensor | nn.Parameter, std: float, seed: int) -> None:
    key = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(key[:8], "little") >> 1)
    parameter.copy_(torch.empty(parameter.shape).normal_(0.0, std, generator=generator))
