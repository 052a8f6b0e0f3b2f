"""Multi-head Attention Residuals: contiguous parts of the channels choose their sources apart."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from attnres_cli.preset.schema import PositiveInt
from attnres_cli.residual.block_sums import BlockConfig, BlockSums


class Config(BlockConfig):
    """[residual] scheme = "attnres-multi-head". block_sublayers = 1 makes every sublayer a source."""

    scheme: Literal["attnres-multi-head"] = "attnres-multi-head"
    depth_heads: PositiveInt = Field(4, description="parts of the channels that choose their sources apart")


class Scheme(BlockSums):
    """Each head has its slice of the query and a softmax of its own; keys are normalised over all channels together,
    and no parameter is added to the single-headed scheme."""

    citation = "Luo, Cai & Hu, Multi-Head Attention Residuals, arXiv 2607.27230"
    formula = "h_l[head] = Σ_n softmax_n(w_l[head] · RMSNorm(b_n)[head]) b_n[head]"
