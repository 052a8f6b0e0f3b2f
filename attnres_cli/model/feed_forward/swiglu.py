"""SwiGLU (Shazeer, arXiv 2002.05202): down(silu(gate x) ⊙ up x), gate and up in one fused matrix."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from attnres_cli.model.sublayer import MatrixSpec, Project, Sublayer
from attnres_cli.preset.schema import ModelConfig
from attnres_cli.residual.protocol import SublayerInput


class FeedForward(Sublayer):
    """Three matrices of d_model × d_ff; the first two are fused, gate rows first."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.d_ff = config.resolved_d_ff
        self.gate_up = nn.Linear(config.d_model, 2 * self.d_ff, bias=False)
        self.down = nn.Linear(self.d_ff, config.d_model, bias=False)

    def forward(self, x: SublayerInput, project: Project | None = None) -> Tensor:
        assert isinstance(x, Tensor), "a feed-forward has one input"
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        out: Tensor = self.down(F.silu(gate) * up)
        return out

    def matrices(self) -> dict[str, MatrixSpec]:
        return {
            "gate_up.weight": MatrixSpec("gate_up", writes_residual=False, split_rows=(self.d_ff, self.d_ff)),
            "down.weight": MatrixSpec("down", writes_residual=True),
        }

    def forward_flops_per_token(self, context_tokens: int) -> float:
        return 2.0 * (self.gate_up.weight.numel() + self.down.weight.numel())
