"""PostNorm, the residual of the first transformers: the sum of stream and output is normalised and is the stream."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from attnres_cli.preset.schema import ResidualConfig
from attnres_cli.residual.normed_stream import NormedStream
from attnres_cli.residual.protocol import Site, State


class Config(ResidualConfig):
    """[residual] scheme = "postnorm"."""

    scheme: Literal["postnorm"] = "postnorm"


class Scheme(NormedStream):
    """RMSNorm where the paper has LayerNorm. The initial weights are the trunk's, with its 1 / sqrt(2 L_b)."""

    citation = "Vaswani et al., Attention Is All You Need, arXiv 1706.03762"
    formula = "h ← Norm(h + f(h)),  h_1 = Norm(embedding)"

    def write(self, state: State, site: Site, output: Tensor) -> State:
        return (state[0] + output,)
