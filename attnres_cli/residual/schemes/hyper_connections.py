"""Hyper-Connections: n streams; what a sublayer reads, how the streams mix and where the output goes is learned."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from attnres_cli.residual.arms import BASELINE
from attnres_cli.residual.parameters import Own, OwnParameters, Places, Role, constant, ones, values, zeros
from attnres_cli.residual.precision import inverse_rms, widen
from attnres_cli.residual.protocol import Geometry
from attnres_cli.residual.streams import Streams, StreamsConfig, Weights

INITIAL_SCALE = 0.01


class Config(StreamsConfig):
    """[residual] scheme = "hyper-connections"."""

    scheme: Literal["hyper-connections"] = "hyper-connections"
    dynamic: bool = Field(True, description="the weights also depend on the token (DHC); false: learned numbers (SHC)")
    scale_outputs: bool = Field(
        False, description="initial weights that write the streams × sqrt(num_streams), as in the paper's runs"
    )


class Scheme(Streams):
    """Static: read A_m one-hot at (ordinal mod n), carry A_r = I, write B = 1. Dynamic, with the streams normalised
    each for itself, H̄ = H / rms(H):

        A = A_static + s_α tanh(H̄ W_α),   B = B_static + s_β tanh(H̄ W_β),   W = 0 and s = 0.01 at first

    Stream i reads its own row of A = (A_m | A_r) and of B; A_r[i, j] is the weight of stream i in the new stream j. The
    paper normalises by LayerNorm; here as everywhere it is RMSNorm, without gain (a gain would be a factor on the rows
    of W), as in the package hyper-connections. The static parts take no weight decay, the W do, as in the paper. With
    `scale_outputs` the initial weights are the paper's, and the model is no longer the baseline at first.
    """

    equals_at_initialisation: str | None = BASELINE
    citation = "Zhu et al., Hyper-Connections, arXiv 2409.19606"
    formula = "H ← A_rᵀ H + B f(Norm(A_mᵀ H)),  H: n streams, (A | B) = static + s tanh(Norm(H) W)"
    config: Config

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        self.sites = Places(OwnParameters(**self._declared(ordinal)) for ordinal in range(geometry.num_sublayers))
        if config.scale_outputs:
            self.equals_at_initialisation = None

    def sublayer_gain(self, role: str) -> float:
        return math.sqrt(self.num_streams) if self.config.scale_outputs and role in ("output", "down") else 1.0

    def weights(self, streams: Tensor, ordinal: int) -> Weights:
        own, n = self.sites.at(ordinal), self.num_streams
        read = widen(own.read) if self.reads(ordinal) else None
        carry, write = widen(own.carry), widen(own.write)
        if self.config.dynamic:
            moved = self._moved(streams, ordinal)
            write = torch.addcmul(write, own.write_scale, moved[..., 0])
            carry = torch.addcmul(carry, own.mixing_scale, moved[..., 1 : n + 1])
            if read is not None:
                read = torch.addcmul(read, own.mixing_scale, moved[..., n + 1])
        tokens = streams.shape[:-2]
        return Weights(
            None if read is None else read.expand(*tokens, n),
            carry.transpose(-1, -2).expand(*tokens, n, n),
            write.expand(*tokens, n),
        )

    def _moved(self, streams: Tensor, ordinal: int) -> Tensor:
        """tanh(H̄ W), [B, T, n, n + 2]: columns of the write weights, the carry matrix and, but at the first site, the
        read weights."""
        own = self.sites.at(ordinal)
        columns = [own.write_projection, own.carry_projection]
        if self.reads(ordinal):
            columns.append(own.read_projection)
        scale = inverse_rms(streams, self.geometry.norm_epsilon).unsqueeze(-1)
        return torch.tanh(torch.matmul(streams, widen(torch.cat(columns, 1))) * scale)

    def weighing_flops(self, ordinal: int) -> float:
        """Dynamic: mean squares (2 n d) and one product per stream and column of W (2 n d each)."""
        if not self.config.dynamic:
            return 0.0
        columns = 1 + self.num_streams + self.reads(ordinal)
        return 2.0 * self.num_streams * self.geometry.d_model * (1 + columns)

    def _declared(self, ordinal: int) -> dict[str, Own]:
        n, d = self.num_streams, self.geometry.d_model
        identity = [[float(i == j) for j in range(n)] for i in range(n)]
        declared = {"carry": Own((n, n), values(identity)), "write": Own((n,), ones)}
        if self.reads(ordinal):
            declared["read"] = Own((n,), values(identity[ordinal % n]))
        if self.config.dynamic:
            declared["write_projection"] = Own((d, 1), zeros, Role.SCHEME_MATRIX)
            declared["carry_projection"] = Own((d, n), zeros, Role.SCHEME_MATRIX)
            if self.reads(ordinal):
                declared["read_projection"] = Own((d, 1), zeros, Role.SCHEME_MATRIX)
            declared["write_scale"] = Own((), constant(INITIAL_SCALE))
            declared["mixing_scale"] = Own((), constant(INITIAL_SCALE))
        return declared
