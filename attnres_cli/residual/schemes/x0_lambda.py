"""x0 mixing: before every transformer block, stream and embedding are mixed anew with two learned numbers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from attnres_cli.preset.schema import ResidualConfig
from attnres_cli.residual.arms import BASELINE
from attnres_cli.residual.holding import held
from attnres_cli.residual.one_stream import OneStream
from attnres_cli.residual.parameters import Own, OwnParameters, Places, ones, zeros
from attnres_cli.residual.precision import inverse_rms
from attnres_cli.residual.protocol import Cost, Geometry, Site, State, SublayerInput


class Config(ResidualConfig):
    """[residual] scheme = "x0-lambda"."""

    scheme: Literal["x0-lambda"] = "x0-lambda"
    normalise_embedding: bool = Field(
        False,
        description="stream and x_0 begin as the embedding over its root mean square (modded-nanogpt's way); false: as "
        "it is",
    )


class Scheme(OneStream):
    """λ = (1, 0) at first: the baseline. At the first block both numbers weigh the embedding, and both learn.

    x_0 is the embedding as it is; with normalise_embedding it is divided by its root mean square (RMSNorm without gain)
    before it becomes stream and x_0, as in modded-nanogpt. That weighs it against the sublayers' outputs as no other
    scheme does, and ends the equality with the baseline.
    """

    belongs_to_sublayers = ("blocks",)
    equals_at_initialisation: str | None = BASELINE
    citation = "Jordan et al., modded-nanogpt (github.com/KellerJordan/modded-nanogpt), 2024"
    formula = "h ← λ_i h + μ_i x_0 before block i,  x_0 = embedding;  h ← h + f(Norm(h))"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        if config.normalise_embedding:
            self.equals_at_initialisation = None
        self.blocks = Places(
            OwnParameters(stream_weight=Own((), ones), embedding_weight=Own((), zeros))
            for _ in range(geometry.transformer_blocks)
        )

    def open(self, embedding: Tensor) -> State:
        (stream,) = super().open(embedding)
        if self.config.normalise_embedding:
            stream = stream * held(inverse_rms(stream, self.geometry.norm_epsilon)).unsqueeze(-1)
        return stream, stream

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        if site.kind == "attention":
            stream, embedding = state
            own = self.blocks.at(site.layer)
            state = (own.stream_weight * stream + own.embedding_weight * embedding, embedding)
        return super().read(state, site)

    def write(self, state: State, site: Site, output: Tensor) -> State:
        stream, embedding = state
        return stream + output, embedding

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        return "stream", "embedding"

    def cost(self) -> Cost:
        """Per block a product with the stream (d) and a multiply-add with the embedding (2 d); the embedding's mean
        square and its scaling, 3 d."""
        d, blocks = self.geometry.d_model, self.geometry.transformer_blocks
        norm = 3.0 * d if self.config.normalise_embedding else 0.0
        return Cost(2 * blocks, 3.0 * d * blocks + norm, 2.0 * d)
