"""The trunk taken apart, so that a test can walk it by a scheme's published formula, one obvious line at a time.

Nothing here comes from `attnres_cli.residual`: norms are written again, sublayers are the model's own f_l without norm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnres_cli.model.trunk import LanguageModel
from tests.small import small_model, tokens_and_targets

Sublayer = Callable[..., Tensor]


def rms_norm(x: Tensor, gain: Tensor | None, epsilon: float) -> Tensor:
    """g ⊙ x / sqrt(mean(x²) + ε) over the last dimension."""
    scaled = x / torch.sqrt((x * x).mean(-1, keepdim=True) + epsilon)
    return scaled if gain is None else scaled * gain


class Pieces:
    """What every scheme has in common, of one model and one batch of tokens.

    embedding: [B, T, d]. f[l](x): sublayer l (from 0; even: attention, odd: feed-forward), without its norm; attention
    also takes a mapping of inputs per role. norm[l](x): the norm that belongs to it; final_norm(x).
    """

    def __init__(self, model: LanguageModel, tokens: Tensor) -> None:
        self.epsilon = model.config.norm_epsilon
        self.embedding: Tensor = model.embedding(tokens)
        self.f: list[Sublayer] = []
        gains: list[Tensor] = []
        for block in model.blocks:
            parts: Any = block
            self.f += [parts.attention, parts.feed_forward]
            gains += [parts.attention_norm.gain, parts.feed_forward_norm.gain]
        self.norm = [self._norm(gain) for gain in gains]
        self.final_norm = self._norm(model.final_norm.gain)

    def _norm(self, gain: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda x: rms_norm(x, gain, self.epsilon)


def stirred(residual: dict[str, Any], *, stir: float = 0.4, **changes: Any) -> tuple[LanguageModel, Pieces, Tensor]:
    """A small float64 model of this [residual] section in which no gain is one and none of the scheme's own parameters
    keeps its first value, so that a transposed or ignored parameter shows; its pieces; and the tokens [2, 12]."""
    model = small_model(residual, stir=stir, **changes)
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.gain") and not name.startswith("residual."):
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            elif parameter.dim() == 2 and not name.startswith("residual."):
                parameter *= 8.0  # so that a sublayer's output is about as large as the stream
    tokens, _ = tokens_and_targets()
    return model, Pieces(model, tokens), tokens


def assert_walks_as(model: LanguageModel, tokens: Tensor, expected: Tensor) -> None:
    """What the head sees equals `expected` [B, T, d] to 1e-11 of its size."""
    size = float(expected.abs().max())
    torch.testing.assert_close(model.walk(tokens), expected, rtol=0, atol=1e-11 * size)
