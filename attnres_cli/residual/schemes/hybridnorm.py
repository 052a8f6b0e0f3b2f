"""HybridNorm: attention reads the stream as it is and normalises query, key and value; the feed-forward has
post-norm."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from attnres_cli.preset.schema import ResidualConfig
from attnres_cli.residual.norm import RMSNorm
from attnres_cli.residual.one_stream import OneStream
from attnres_cli.residual.protocol import Geometry, Site, State, SublayerInput


class Config(ResidualConfig):
    """[residual] scheme = "hybridnorm"."""

    scheme: Literal["hybridnorm"] = "hybridnorm"
    first_block: Literal["same", "pre-norm"] = Field(
        "same",
        description="first transformer block: as all others, or with PreNorm around both sublayers beside the norms of "
        "q, k and v (the paper's HybridNorm*)",
    )


class HeadNorms(nn.Module):
    """One norm each for the query, key and value heads of one attention; heads share its gain [head size]."""

    def __init__(self, head_dim: int, epsilon: float) -> None:
        super().__init__()
        self.query = RMSNorm(head_dim, epsilon)
        self.key = RMSNorm(head_dim, epsilon)
        self.value = RMSNorm(head_dim, epsilon)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Statistics in at least float32, results in the dtype that came."""
        return _normed(self.query, q), _normed(self.key, k), _normed(self.value, v)


def _normed(norm: nn.Module, heads: Tensor) -> Tensor:
    """[B, heads, T, head size] lies in memory as [B, T, heads, head size]; it is read and left in that order."""
    in_order: Tensor = norm(heads.transpose(1, 2))
    return in_order.to(heads.dtype).transpose(1, 2)


class Scheme(OneStream):
    """The norm of y is the feed-forward's own and takes both its input and the skip; query and key are normalised
    before rotary embedding. The norms of attention's input are left over (but the first with first_block = "pre-norm").
    """

    belongs_to_sublayers = ("head_norms",)
    citation = (
        "Zhuo et al., HybridNorm: Towards Stable and Efficient Transformer Training via Hybrid Normalization, "
        "arXiv 2503.04598"
    )
    formula = "y = h + Attention(h) with Norm on q, k, v;  h ← Norm(y) + FFN(Norm(y))"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        self.head_norms = nn.ModuleList(
            HeadNorms(geometry.head_dim, geometry.norm_epsilon) for _ in range(geometry.transformer_blocks)
        )

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        if self._prenorm(site.layer):
            return super().read(state, site)
        if site.kind == "attention":
            return state[0], state
        normalised = site.norm(state[0])
        return normalised, (normalised,)

    def project(
        self, state: State, site: Site, q: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, State]:
        q, k, v = self.head_norms[site.layer](q, k, v)
        return q, k, v, state

    def write(self, state: State, site: Site, output: Tensor) -> State:
        return (state[0] + output,)

    def stream(self, state: State) -> Tensor:
        """The sum that attention or the feed-forward has just been added to."""
        return state[0]

    def unused_norms(self) -> dict[int, str]:
        reason = "attention reads the stream as it is; its query, key and value are normalised instead"
        return {2 * layer: reason for layer in range(self.geometry.transformer_blocks) if not self._prenorm(layer)}

    def forward_flops_per_token(self) -> float:
        """4 per channel of query, key and value; the norms of attention's input that fall away are not taken off."""
        at = self.geometry
        return 4.0 * at.transformer_blocks * at.head_dim * (at.num_heads + 2 * at.num_kv_heads)

    def _prenorm(self, layer: int) -> bool:
        return layer == 0 and self.config.first_block == "pre-norm"
