"""Causal grouped-query attention with rotary positions, through scaled_dot_product_attention."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnres_cli.model.cache import LayerCache
from attnres_cli.model.rotary import Rotary
from attnres_cli.model.sublayer import MatrixSpec, Project, SequenceMixer
from attnres_cli.preset.schema import ModelConfig
from attnres_cli.residual.protocol import SublayerInput


class Mixer(SequenceMixer):
    """q, k and v come from one fused matrix, whose rows are q heads, then k heads, then v heads."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = config.num_heads, config.resolved_num_kv_heads
        self.head_dim = config.resolved_head_dim
        self.query_rows, self.kv_rows = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        self.qkv = nn.Linear(config.d_model, self.query_rows + 2 * self.kv_rows, bias=False)
        self.output = nn.Linear(self.query_rows, config.d_model, bias=False)
        self.rotary = Rotary(self.head_dim, config.context_tokens, config.rope_theta)

    def forward(self, x: SublayerInput, project: Project | None = None, cache: LayerCache | None = None) -> Tensor:
        first_position = 0 if cache is None else cache.first_position
        q, k, v = self._rotated(x, project, first_position)  # [B, T, heads, head size]
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if cache is not None:
            k, v = cache.extend(k, v)
        attended = causal_attention(q, k, v)
        out: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return out

    def matrices(self) -> dict[str, MatrixSpec]:
        return {
            "qkv.weight": MatrixSpec(
                ("query", "key", "value"),
                writes_residual=False,
                split_rows=(self.query_rows, self.kv_rows, self.kv_rows),
            ),
            "output.weight": MatrixSpec(("output",), writes_residual=True),
        }

    def forward_flops_per_token(self, context_tokens: int) -> float:
        scores_and_values = 2 * 2 * self.query_rows * context_tokens / 2
        return 2.0 * (self.qkv.weight.numel() + self.output.weight.numel()) + scores_and_values

    def _rotated(self, x: SublayerInput, project: Project | None, first_position: int) -> tuple[Tensor, Tensor, Tensor]:
        if project is None and not isinstance(x, Mapping):
            heads = self._heads(self.qkv(x))
            return self.rotary.split(heads, (self.num_heads, self.num_kv_heads, self.num_kv_heads), first_position)
        q, k, v = self._projections(x)
        if project is not None:
            q, k, v = (t.transpose(1, 2) for t in project(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)))
        return self.rotary(q, first_position), self.rotary(k, first_position), v

    def _projections(self, x: SublayerInput) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v [B, T, heads, head size]; the fused matrix is sliced where a scheme routes its inputs apart."""
        inputs = x if isinstance(x, Mapping) else {"q": x, "k": x, "v": x}
        q_rows, k_rows, v_rows = torch.split(self.qkv.weight, [self.query_rows, self.kv_rows, self.kv_rows])
        q = self._heads(F.linear(inputs["q"], q_rows))
        k = self._heads(F.linear(inputs["k"], k_rows))
        v = self._heads(F.linear(inputs["v"], v_rows))
        return q, k, v

    def _heads(self, rows: Tensor) -> Tensor:
        """[B, T, heads × head size] → [B, T, heads, head size]."""
        return rows.view(*rows.shape[:-1], -1, self.head_dim)


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q [B, heads, T, head size] are the last T of the positions that k and v [B, key/value heads, positions, head
    size] hold, and each sees up to its own; the result has q's shape."""
    queries, positions = q.shape[2], k.shape[2]
    grouped = q.shape[1] != k.shape[1]
    if queries == positions:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
    if queries == 1:  # sees everything: heads that share keys go in as queries, and no key is copied for them
        by_key_head = q.reshape(q.shape[0], k.shape[1], -1, q.shape[3])
        return F.scaled_dot_product_attention(by_key_head, k, v).flatten(1, 2).unsqueeze(2)
    # is_causal would let query i see keys 0 … i, as if the queries were the first positions and not the last.
    seen = torch.ones(queries, positions, dtype=torch.bool, device=q.device).tril(positions - queries)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=grouped)
