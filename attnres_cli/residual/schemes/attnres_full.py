"""Full Attention Residuals: every sublayer attends to the embedding and to all earlier sublayer outputs (Eq. 1–4)."""

from __future__ import annotations

from typing import Literal

from attnres_cli.residual.depth_attention import DepthAttention, DepthAttentionConfig


class Config(DepthAttentionConfig):
    """[residual] scheme = "attnres-full"."""

    scheme: Literal["attnres-full"] = "attnres-full"


class Scheme(DepthAttention):
    """Sources of sublayer l (from 1): v_0 = embedding, v_1 … v_{l-1} = sublayer outputs."""

    formula = "h_l = Σ_i softmax_i(w_l · RMSNorm(v_i)) v_i,  v_0 = embedding, v_i = f_i(h_i)"

    def joins(self, ordinal: int) -> bool:
        return False

    def source_names(self, ordinal: int) -> tuple[str, ...]:
        kinds = ("attention", "feed_forward")
        return ("embedding", *(f"{kinds[i % 2]} {i // 2}" for i in range(ordinal)))

    def summary(self) -> str:
        return f"{self.geometry.num_sublayers} sublayers, each a source"
