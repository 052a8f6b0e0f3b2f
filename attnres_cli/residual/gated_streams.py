"""Streams whose read and write weights are sigmoids and whose carry matrix is doubly stochastic (mHC and its kin).

With x = vec(X) / rms(vec X) over all n d channels of a token (a gain would be a factor on φ, so there is none):

    r = σ(α_pre x φ_pre + b_pre),   w = 2 σ(α_post x φ_post + b_post),   C = M(α_res x φ_res + b_res)

A scheme says what M is. Rows and columns of C add up to one, so it is left out where that decides what it does: before
the first sublayer all streams are equal, after the last one they are added up.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from attnres_cli.residual.parameters import Own, OwnParameters, Places, Role, constant, values, zeros
from attnres_cli.residual.precision import inverse_rms, widen
from attnres_cli.residual.protocol import Geometry
from attnres_cli.residual.streams import Streams, StreamsConfig, Weights

# First values as in the public code of arXiv 2601.05732; the paper of mHC gives them for α alone.
INITIAL_SCALE = 0.01
INITIAL_GATE = -1.0
INITIAL_GATE_OF_ITS_OWN = 1.0


class GatedStreams(Streams):
    """At first r and w are σ(-1) and 2 σ(-1), but σ(1) and 2 σ(1) on stream (ordinal mod n), and C is close to I.

    So it does not start as the plain residual: the streams take up the outputs in different measure from the start.
    """

    def __init__(self, config: StreamsConfig, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        self.sites = Places(OwnParameters(**self._declared(ordinal)) for ordinal in range(geometry.num_sublayers))

    @abstractmethod
    def carry_bias(self) -> list[float]:
        """First value of b_res; its length is the number of logits that M takes."""

    @abstractmethod
    def doubly_stochastic(self, logits: Tensor) -> Tensor:
        """M: [B, T, logits] → [B, T, n, n]."""

    @abstractmethod
    def constraining_flops(self) -> float:
        """FLOPs per token of M."""

    def carries(self, ordinal: int) -> bool:
        return 0 < ordinal < self.geometry.num_sublayers - 1

    def weights(self, streams: Tensor, ordinal: int) -> Weights:
        own, parts = self.sites.at(ordinal), self._parts(ordinal)
        scaled = [widen(getattr(own, f"scale_{part}") * getattr(own, f"projection_{part}")) for part in parts]
        bias = torch.cat([getattr(own, f"bias_{part}") for part in parts])
        channels = streams.flatten(-2)
        scale = inverse_rms(channels, self.geometry.norm_epsilon).unsqueeze(-1)
        logits = torch.addcmul(widen(bias), torch.matmul(channels, torch.cat(scaled, 1)), scale)
        by_part = dict(zip(parts, torch.split(logits, [matrix.shape[1] for matrix in scaled], -1), strict=True))
        return Weights(
            torch.sigmoid(by_part["pre"]) if "pre" in by_part else None,
            self.doubly_stochastic(by_part["res"]) if "res" in by_part else None,
            2.0 * torch.sigmoid(by_part["post"]),
        )

    def weighing_flops(self, ordinal: int) -> float:
        """Mean square over n d channels (2 n d), one product per logit (2 n d each), and M; sigmoids do not count."""
        channels = self.num_streams * self.geometry.d_model
        logits = sum(len(self._first_bias(part, ordinal)) for part in self._parts(ordinal))
        return 2.0 * channels * (1 + logits) + self.constraining_flops() * self.carries(ordinal)

    def _parts(self, ordinal: int) -> list[str]:
        """Which of the three weights sublayer `ordinal` has."""
        present = {"pre": self.reads(ordinal), "post": True, "res": self.carries(ordinal)}
        return [part for part in ("pre", "post", "res") if present[part]]

    def _first_bias(self, part: str, ordinal: int) -> list[float]:
        if part == "res":
            return self.carry_bias()
        bias = [INITIAL_GATE] * self.num_streams
        bias[ordinal % self.num_streams] = INITIAL_GATE_OF_ITS_OWN
        return bias

    def _declared(self, ordinal: int) -> dict[str, Own]:
        declared: dict[str, Own] = {}
        for part in self._parts(ordinal):
            bias = self._first_bias(part, ordinal)
            channels = self.num_streams * self.geometry.d_model
            declared[f"projection_{part}"] = Own((channels, len(bias)), zeros, Role.SCHEME_MATRIX)
            declared[f"scale_{part}"] = Own((), constant(INITIAL_SCALE))
            declared[f"bias_{part}"] = Own((len(bias),), values(bias))
        return declared
