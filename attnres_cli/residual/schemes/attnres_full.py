"""Full Attention Residuals: every sublayer attends to the embedding and to all earlier sublayer outputs (Eq. 1–4)."""

from __future__ import annotations

from typing import Literal

from attnres_cli.residual.depth_attention import DepthAttention
from attnres_cli.residual.depth_config import DepthAttentionConfig
from attnres_cli.residual.protocol import Geometry


class Config(DepthAttentionConfig):
    """[residual] scheme = "attnres-full"."""

    scheme: Literal["attnres-full"] = "attnres-full"


class Scheme(DepthAttention):
    """Sources of sublayer l (from 1): v_0 = embedding, v_1 … v_{l-1} = sublayer outputs."""

    formula = "h_l = Σ_i softmax_i(w_l · RMSNorm(v_i)) v_i,  v_0 = embedding, v_i = f_i(h_i)"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry, [False] * geometry.num_sublayers)

    def source_label(self, ordinal: int) -> str:
        return f"{('attention', 'feed_forward')[ordinal % 2]} {ordinal // 2}"

    def summary(self) -> str:
        return f"{self.geometry.num_sublayers} sublayers, each a source"
