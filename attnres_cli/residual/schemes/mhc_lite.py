"""mHC-lite: the matrix between streams is a weighted mean of all permutations, so it is doubly stochastic exactly."""

from __future__ import annotations

from itertools import permutations
from math import factorial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from attnres_cli.residual.gated_streams import GatedStreams
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

    def carry_bias(self) -> list[float]:
        return [0.0] + [NOT_IDENTITY] * (factorial(self.num_streams) - 1)

    def doubly_stochastic(self, logits: Tensor) -> Tensor:
        n = self.num_streams
        orders = torch.tensor(list(permutations(range(n))), device=logits.device)
        table = torch.nn.functional.one_hot(orders, n).flatten(1).to(logits.dtype)  # P_k in rows, [n!, n²]
        return torch.matmul(torch.softmax(logits, -1), table).view(*logits.shape[:-1], n, n)

    def constraining_flops(self) -> float:
        """A softmax (3 per logit) and the sum of the permutations (2 n² per logit)."""
        return factorial(self.num_streams) * (3.0 + 2.0 * self.num_streams**2)
