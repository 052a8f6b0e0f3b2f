"""Block Attention Residuals: attend to the embedding, the sums of finished blocks, and the running sum (Eq. 5–6)."""

from __future__ import annotations

from typing import Literal

from attnres_cli.residual.block_sums import BlockConfig, BlockSums


class Config(BlockConfig):
    """[residual] scheme = "attnres-block"."""

    scheme: Literal["attnres-block"] = "attnres-block"


class Scheme(BlockSums):
    """The paper's scheme for large models; one sublayer per block makes it the Full one."""

    formula = "h_l = Σ_n softmax_n(w_l · RMSNorm(b_n)) b_n,  b_0 = embedding, b_n = Σ_{j in block n} f_j(h_j)"
