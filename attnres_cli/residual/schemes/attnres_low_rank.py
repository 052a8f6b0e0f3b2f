"""Low-Rank Attention Residuals: keys and queries of few channels, values of all."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from attnres_cli.preset.schema import OnlyWith, PositiveInt
from attnres_cli.residual.block_sums import BlockConfig, BlockSums
from attnres_cli.residual.protocol import Geometry


class Config(BlockConfig):
    """[residual] scheme = "attnres-low-rank". block_sublayers = 1 makes every sublayer a source."""

    scheme: Literal["attnres-low-rank"] = "attnres-low-rank"
    query: Literal["static", "input"] = Field(
        "static", description="a learned vector per site, or projected from the newest source"
    )
    key_rank: PositiveInt | None = Field(None, description="channels of keys and queries; without it d_model / 4")
    key_projection: Annotated[Literal["projected", "sliced"], OnlyWith("query", ("static", "input"))] = Field(
        "projected", description="keys by one learned matrix, or the last channels of the source"
    )


class Scheme(BlockSums):
    """Projected keys come from one matrix for all sources (the source says "projected" and no more): a running sum has
    many makers, so a matrix per maker could not be told apart. It starts as N(0, 1/d)."""

    citation = "Su, Low-Rank Attention Residuals, arXiv 2607.09694"
    formula = "h_l = Σ_n softmax_n(w_l · RMSNorm(P b_n)) b_n,  P: d → r, or the last r channels"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        rank = config.key_rank or max(1, geometry.d_model // 4)
        super().__init__(config.model_copy(update={"key_rank": rank}), geometry)
