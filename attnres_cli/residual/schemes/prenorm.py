"""The baseline: PreNorm residuals, h_{l+1} = h_l + f_l(RMSNorm(h_l))."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from attnres_cli.residual.add_norm import AddNormPass
from attnres_cli.residual.backends import Backend, BackendConfig
from attnres_cli.residual.fusing import can_fuse
from attnres_cli.residual.one_stream import OneStream
from attnres_cli.residual.protocol import FusedPass, Geometry, Site, State


class Config(BackendConfig):
    """[residual] scheme = "prenorm"."""

    scheme: Literal["prenorm"] = "prenorm"


class Scheme(OneStream):
    """The state is the residual stream alone."""

    citation = "Xiong et al., On Layer Normalization in the Transformer Architecture, arXiv 2002.04745"
    formula = "h ← h + f(Norm(h))"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        self.backend = Backend(config.backend)

    def prepare(self, device: torch.device) -> str:
        return self.backend.prepare(device)

    def open(self, embedding: Tensor) -> State:
        """As it comes: in a model of half precision the baseline's stream is what a plain residual's is."""
        return (embedding,)

    def write(self, state: State, site: Site, output: Tensor) -> State:
        return (state[0] + output,)

    def fused_pass(self, embedding: Tensor) -> FusedPass | None:
        kernels = self.backend.op.kernels
        if not can_fuse(kernels, embedding):
            return None
        assert kernels is not None
        return AddNormPass(kernels, embedding)
