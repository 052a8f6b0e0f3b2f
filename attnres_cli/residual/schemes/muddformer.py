"""MUDDFormer: after every transformer block, weights computed from its output mix all block outputs so far, apart for
the query, key, value and residual input of the next block (multiway dynamic dense connections)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attnres_cli.preset.schema import PositiveInt, ResidualConfig
from attnres_cli.residual.arms import BASELINE
from attnres_cli.residual.block_outputs import BlockOutputs
from attnres_cli.residual.holding import held
from attnres_cli.residual.mixing import weighted_sum
from attnres_cli.residual.norm import RMSNorm
from attnres_cli.residual.parameters import Own, OwnParameters, Places, Role, normal, values, zeros
from attnres_cli.residual.precision import inverse_rms, widen
from attnres_cli.residual.protocol import Cost, Geometry, Site, SublayerInput

# Query, key, value, residual: the order of the weights' rows.
STREAMS = 4


class Config(ResidualConfig):
    """[residual] scheme = "muddformer"."""

    scheme: Literal["muddformer"] = "muddformer"
    hidden_multiplier: PositiveInt = Field(
        1, description="hidden channels of the network that gives C weights per output: this times C (outputs so far)"
    )
    expand_last: bool = Field(
        True, description="the last network, which gives one stream, is four times as wide, as in the published code"
    )


class Scheme(BlockOutputs):
    """After n blocks C × (n + 1) weights per token: W_2 GELU(W_1 X_n / rms(X_n)) + b, no softmax. C = 4 between blocks,
    C = 1 before the final norm. The first block starts from the embedding alone.

    Query input: the site's norm; key and value inputs: norms of their own. The feed-forward sees the usual norm of the
    block's running sum. b is 1 for X_n and 0 for the rest, W_2 is 0, W_1 ~ N(0, 1/d) at first, as in the published
    training code: the model starts as PreNorm. Left out, because they are no residual scheme or were off in the basic
    method: feed-forwards that widen with depth, norms before and after the mixing.
    """

    equals_at_initialisation = BASELINE
    citation = "Xiao et al., MUDDFormer, arXiv 2502.12170"
    formula = (
        "after block n:  h^c ← Σ_j A^c_{n,j}(X_n) X_j for c = q, k, v, r;  A = W_2 GELU(W_1 Norm(X_n)) + b;  "
        "block: r ← h^r + Attention(h^q, h^k, h^v), r ← r + FFN(Norm(r))"
    )

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        blocks, d = geometry.transformer_blocks, geometry.d_model
        self.mixers = Places(self._mixer(n) for n in range(1, blocks + 1))
        # Of the blocks from the second on: index + 1 is the layer.
        self.key_norms = nn.ModuleList(RMSNorm(d, geometry.norm_epsilon) for _ in range(blocks - 1))
        self.value_norms = nn.ModuleList(RMSNorm(d, geometry.norm_epsilon) for _ in range(blocks - 1))

    def enter(self, outputs: Sequence[Tensor], site: Site) -> tuple[SublayerInput, Tensor]:
        if site.layer == 0:
            return site.norm(outputs[0]), outputs[0]
        query, key, value, residual = self._mixed(outputs).unbind()
        x = {
            "q": site.norm(query),
            "k": self.key_norms[site.layer - 1](key),
            "v": self.value_norms[site.layer - 1](value),
        }
        return x, residual

    def leave(self, outputs: Sequence[Tensor]) -> Tensor:
        """After all blocks the one stream; closed before that, what the next block's residual additions would start
        from."""
        return self._mixed(outputs)[-1] if len(outputs) > 1 else outputs[0]

    def cost(self) -> Cost:
        """After n blocks, with C streams and hidden size H: a norm (4 d), both matrices, GELU and bias (H + C (n + 1)),
        a multiply-add per channel, stream and output; two more norms in every block but the first."""
        d, blocks = self.geometry.d_model, self.geometry.transformer_blocks
        flops = 8.0 * d * (blocks - 1)
        for n, streams, hidden in self._sizes():
            weights = streams * (n + 1)
            flops += 4 * d + 2 * d * hidden + hidden + 2 * hidden * weights + weights + 2 * d * weights
        return Cost(self.own_parameters(), flops, float(d * (blocks + 1)))

    def _mixed(self, outputs: Sequence[Tensor]) -> Tensor:
        """All streams, [C, B, T, d]."""
        own = self.mixers.at(len(outputs) - 2)
        newest = outputs[-1]
        normed = newest * inverse_rms(newest, self.geometry.norm_epsilon).unsqueeze(-1)
        dynamic = F.linear(F.gelu(F.linear(normed, own.w1)), own.w2)
        weights = held(torch.unflatten(widen(dynamic), -1, own.bias.shape) + own.bias)  # [B, T, C, n + 1]
        per_output = weights.permute(3, 2, 0, 1).unsqueeze(-1).unbind()  # (n + 1) × [C, B, T, 1]
        return weighted_sum(outputs, per_output)

    def _mixer(self, blocks: int) -> OwnParameters:
        streams, hidden = self._size(blocks)
        outputs, d = blocks + 1, self.geometry.d_model
        return OwnParameters(
            w1=Own((hidden, d), normal(d**-0.5), Role.SCHEME_MATRIX),
            w2=Own((streams * outputs, hidden), zeros, Role.SCHEME_MATRIX),
            bias=Own((streams, outputs), values([0.0] * blocks + [1.0])),
        )

    def _size(self, blocks: int) -> tuple[int, int]:
        """(streams, hidden size) of the network after this many blocks."""
        last = blocks == self.geometry.transformer_blocks
        streams = 1 if last else STREAMS
        widths = STREAMS if last and self.config.expand_last else streams
        return streams, self.config.hidden_multiplier * widths * (blocks + 1)

    def _sizes(self) -> Iterator[tuple[int, int, int]]:
        for blocks in range(1, self.geometry.transformer_blocks + 1):
            yield (blocks, *self._size(blocks))
