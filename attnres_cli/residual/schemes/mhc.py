"""mHC: hyper-connections whose matrix between streams is made doubly stochastic by Sinkhorn's iteration."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from attnres_cli.residual.gated_streams import GatedStreams
from attnres_cli.residual.streams import StreamsConfig

# First logit of every pair of different streams; of a stream with itself it is 0.
OFF_DIAGONAL = -8.0


class Config(StreamsConfig):
    """[residual] scheme = "mhc"."""

    scheme: Literal["mhc"] = "mhc"
    sinkhorn_iterations: Annotated[int, Field(gt=0)] = Field(
        20, description="normalisations of the columns and then the rows of the matrix between streams"
    )


class Scheme(GatedStreams):
    """M = Sinkhorn's iteration from exp(logits): columns, then rows, add up to one, in turn, in logarithms.

    Rows are exact after any number of iterations, columns as far as it has converged. After the last sublayer the
    matrix could act through that remainder alone, so it is left out there.
    """

    citation = "Xie et al., mHC: Manifold-Constrained Hyper-Connections, arXiv 2512.24880"
    formula = "X ← H_res X + H_post f(Norm(H_pre X)),  H_pre = σ(·), H_post = 2σ(·), H_res = Sinkhorn(exp(·))"
    config: Config

    def carry_bias(self) -> list[float]:
        n = self.num_streams
        return [0.0 if i == j else OFF_DIAGONAL for i in range(n) for j in range(n)]

    def doubly_stochastic(self, logits: Tensor) -> Tensor:
        n = self.num_streams
        return sinkhorn(logits.view(*logits.shape[:-1], n, n), self.config.sinkhorn_iterations)

    def constraining_flops(self) -> float:
        """Per iteration two normalisations, each an exponential, an addition and a subtraction per element."""
        return 6.0 * self.num_streams**2 * self.config.sinkhorn_iterations


def sinkhorn(logits: Tensor, iterations: int) -> Tensor:
    """The matrices [..., n, n] of exp(logits) with columns, then rows, normalised `iterations` times.

    The tokens lie last meanwhile: reductions over n numbers next to each other take six times as long on a CPU.
    """
    logarithm = logits.movedim((-2, -1), (0, 1)).contiguous()
    for _ in range(iterations):
        logarithm = torch.log_softmax(torch.log_softmax(logarithm, 0), 1)
    return logarithm.exp().movedim((0, 1), (-2, -1))
