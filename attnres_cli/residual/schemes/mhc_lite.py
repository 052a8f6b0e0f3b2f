"""mHC-lite: the matrix between streams is a weighted mean of all permutations, so it is doubly stochastic exactly."""

from __future__ import annotations

from itertools import permutations
from math import factorial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from attnres_cli.residual.gated_streams import GatedStreams
from attnres_cli.residual.operator import widen
from attnres_cli.residual.protocol import Geometry
from attnres_cli.residual.streams import StreamsConfig

# First logit of every permutation but the identity, which has 0.
NOT_IDENTITY = -8.0


class Config(StreamsConfig):
    """[residual] scheme = "mhc-lite". n! logits per sublayer, each with n d weights: 6 streams make 720 of them."""

    scheme: Literal["mhc-lite"] = "mhc-lite"
    num_streams: Annotated[int, Field(ge=2, le=6)] = Field(
        4, description="residual streams (the paper's n); each sublayer weighs all n! orders of them"
    )


class Scheme(GatedStreams):
    """M = Σ_k a_k P_k with a = softmax(logits), P_k the n! permutation matrices in lexicographic order, identity first:
    row i of P_k has its one at column perm_k(i)."""

    citation = "Yang & Gao, mHC-lite: You Don't Need 20 Sinkhorn-Knopp Iterations, arXiv 2601.05732"
    formula = "X ← H_res X + H_post f(Norm(H_pre X)),  H_pre = σ(·), H_post = 2σ(·), H_res = Σ_k softmax_k(·) P_k"
    # The P_k in rows, [n!, n²]: constant, so it is not saved.
    table: Tensor

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        n = config.num_streams
        self.register_buffer("table", torch.empty(factorial(n), n * n), persistent=False)

    def initialise(self, parameter_name: str, parameter: Tensor, generator: torch.Generator) -> None:
        """The table, too: models are made without memory, and this is where values are set."""
        super().initialise(parameter_name, parameter, generator)
        orders = torch.tensor(list(permutations(range(self.num_streams))), device=self.table.device)
        self.table.copy_(torch.nn.functional.one_hot(orders, self.num_streams).flatten(1))

    def carry_bias(self) -> list[float]:
        return [0.0] + [NOT_IDENTITY] * (factorial(self.num_streams) - 1)

    def doubly_stochastic(self, logits: Tensor) -> Tensor:
        n = self.num_streams
        return torch.matmul(torch.softmax(logits, -1), widen(self.table)).view(*logits.shape[:-1], n, n)

    def constraining_flops(self) -> float:
        """A softmax (3 per logit) and the sum of the permutations (2 n² per logit)."""
        return factorial(self.num_streams) * (3.0 + 2.0 * self.num_streams**2)
