"""The baseline: PreNorm residuals, h_{l+1} = h_l + f_l(RMSNorm(h_l))."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from attnres_cli.residual.add_norm import AddNormPass
from attnres_cli.residual.backends import Backend, BackendConfig
from attnres_cli.residual.fusing import can_fuse
from attnres_cli.residual.protocol import Cost, FusedPass, Geometry, Norm, Residual, Site, State


class Config(BackendConfig):
    """[residual] scheme = "prenorm"."""

    scheme: Literal["prenorm"] = "prenorm"


class Scheme(Residual):
    """The state is the residual stream alone."""

    equals_at_initialisation = None
    citation = "Xiong et al., On Layer Normalization in the Transformer Architecture, arXiv 2002.04745"
    formula = "h ← h + f(Norm(h))"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        self.backend = Backend(config.backend)

    def prepare(self, device: torch.device) -> str:
        return self.backend.prepare(device)

    def open(self, embedding: Tensor) -> State:
        return (embedding,)

    def read(self, state: State, site: Site) -> tuple[Tensor, State]:
        return site.norm(state[0]), state

    def write(self, state: State, site: Site, output: Tensor) -> State:
        return (state[0] + output,)

    def close(self, state: State, final_norm: Norm) -> Tensor:
        return final_norm(state[0])

    def fused_pass(self, embedding: Tensor) -> FusedPass | None:
        kernels = self.backend.op.kernels
        if not can_fuse(kernels, embedding):
            return None
        assert kernels is not None
        return AddNormPass(kernels, embedding)

    def stream(self, state: State) -> Tensor:
        """The residual stream."""
        return state[0]

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        return ("stream",)

    def cost(self) -> Cost:
        return Cost(parameters=0, forward_flops_per_token=0.0, live_elements_per_token=float(self.geometry.d_model))
