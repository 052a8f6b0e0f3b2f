"""DenseFormer: after every transformer block a learned, static average of all block outputs so far (depth-weighted
average, DWA) takes the place of the newest one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from attnres_cli.preset.schema import Complaint, PositiveInt, ResidualConfig
from attnres_cli.residual.arms import BASELINE
from attnres_cli.residual.block_outputs import BlockOutputs
from attnres_cli.residual.mixing import weighted_sum
from attnres_cli.residual.parameters import Own, OwnParameters, Places, values
from attnres_cli.residual.protocol import Cost, Geometry, Site, SublayerInput


class Config(ResidualConfig):
    """[residual] scheme = "denseformer"."""

    scheme: Literal["denseformer"] = "denseformer"
    dilation: PositiveInt = Field(1, description="an average takes every dilation-th output, counted from the newest")
    period: PositiveInt = Field(1, description="an average stands after every period-th transformer block only")

    def check(self, preset: Any) -> Iterator[Complaint]:
        blocks = preset.model.transformer_blocks
        for key, value in (("dilation", self.dilation), ("period", self.period)):
            if value > blocks:
                yield Complaint(
                    key,
                    f"{key} = {value} is more than the model's {blocks} transformer blocks: nothing would be averaged.",
                    f"1 to {blocks}",
                    also=("model.transformer_blocks",),
                )


class Scheme(BlockOutputs):
    """X_n enters the averages as block n - 1 gave it; the average is what the next block starts from, and is itself no
    source (as in the published code). With dilation k the average after n blocks takes X_n, X_{n-k}, X_{n-2k}, …; with
    period p it stands where p divides n, and elsewhere the next block starts from X_n itself. Every a is 1 for X_n
    and 0 for the rest at first: the model starts as PreNorm.

    The last average, before the final norm, stands where p divides L_b.
    """

    equals_at_initialisation = BASELINE
    citation = "Pagliardini et al., DenseFormer, arXiv 2402.02622"
    formula = (
        "after block n:  h ← Σ_j a_{n,j} X_j,  X_0 = embedding, X_j = output of block j;  a = (0, …, 0, 1) at first"
    )

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        self.averages = Places(self._weights(n) for n in range(1, geometry.transformer_blocks + 1))

    def enter(self, outputs: Sequence[Tensor], site: Site) -> tuple[SublayerInput, Tensor]:
        start = self._average(outputs)
        return site.norm(start), start

    def leave(self, outputs: Sequence[Tensor]) -> Tensor:
        return self._average(outputs)

    def cost(self) -> Cost:
        """A multiply-add per channel and weight."""
        d, parameters = self.geometry.d_model, self.own_parameters()
        return Cost(parameters, 2.0 * d * parameters, float(d * (self.geometry.transformer_blocks + 1)))

    def _average(self, outputs: Sequence[Tensor]) -> Tensor:
        """The average after n = len(outputs) - 1 blocks; its weights are those of `averages.<n - 1>`, oldest first."""
        sources = self._sources(len(outputs) - 1)
        if not sources:
            return outputs[-1]
        weights = self.averages.at(len(outputs) - 2).weights.unbind()
        return weighted_sum([outputs[j] for j in sources], weights)

    def _sources(self, blocks: int) -> range:
        """Which X_j the average after this many blocks takes, oldest first; none: no average stands there."""
        if blocks == 0 or blocks % self.config.period:
            return range(0)
        return range(blocks % self.config.dilation, blocks + 1, self.config.dilation)

    def _weights(self, blocks: int) -> OwnParameters:
        count = len(self._sources(blocks))
        if not count:
            return OwnParameters()
        return OwnParameters(weights=Own((count,), values([0.0] * (count - 1) + [1.0])))
