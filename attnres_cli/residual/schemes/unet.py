"""U-Net skips: what leaves the transformer blocks of the first half is added again before those of the second half."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from attnres_cli.preset.schema import ResidualConfig
from attnres_cli.residual.arms import BASELINE
from attnres_cli.residual.one_stream import OneStream
from attnres_cli.residual.parameters import Own, OwnParameters, Places, constant
from attnres_cli.residual.protocol import Geometry, Site, State, SublayerInput


class Config(ResidualConfig):
    """[residual] scheme = "unet"."""

    scheme: Literal["unet"] = "unet"
    initial_weight: float = Field(1.0, description="first value of every skip's weight; 0: the baseline at first")


class Scheme(OneStream):
    """State: the stream, then the saved streams, oldest first; the newest is taken first (last in, first out).

    With blocks counted from 0, block i of the second half takes what left block L_b - 1 - i. With an even L_b, the
    first of them so takes the very stream it is added to, as in the original, and doubles it at weight 1. With an odd
    L_b, the middle block has no partner. The attention of the original has PreNorm, as here.
    """

    citation = "Jordan et al., modded-nanogpt (github.com/KellerJordan/modded-nanogpt), 2024"
    formula = "h ← h + w_i s_{L_b-1-i} before block i of the second half,  s_i = h after block i;  h ← h + f(Norm(h))"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        if config.initial_weight == 0:
            self.equals_at_initialisation = BASELINE
        weight = Own((), constant(config.initial_weight))
        self.blocks = Places(
            OwnParameters(weight=weight) if self._takes(layer) else OwnParameters()
            for layer in range(geometry.transformer_blocks)
        )

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        if site.kind == "attention" and self._takes(site.layer):
            stream, *saved, newest = state
            state = (stream + self.blocks.at(site.layer).weight * newest, *saved)
        return super().read(state, site)

    def write(self, state: State, site: Site, output: Tensor) -> State:
        stream, *saved = state
        stream = stream + output
        if site.kind == "feed_forward" and site.layer < self._pairs:
            saved.append(stream)
        return (stream, *saved)

    def skip(self, state: State, site: Site) -> State:
        """A block that is not there saves the stream that passes it, and takes none: its partner's goes unused."""
        stream, *saved = state
        if site.kind == "attention" and self._takes(site.layer):
            saved.pop()
        if site.kind == "feed_forward" and site.layer < self._pairs:
            saved.append(stream)
        return (stream, *saved)

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        """As its `read` leaves the state: attention of the second half has taken its saved stream then."""
        finished, blocks = ordinal // 2, self.geometry.transformer_blocks
        taken = sum(self._takes(layer) for layer in range(min(finished + 1, blocks)))
        return ("stream", *(f"block {layer}" for layer in range(min(finished, self._pairs) - taken)))

    def forward_flops_per_token(self) -> float:
        """A multiply-add per skip and channel. All that is saved is taken before the end: at its largest, half way, the
        state has 1 + ⌊L_b / 2⌋ streams."""
        return 2.0 * self.geometry.d_model * self._pairs

    @property
    def _pairs(self) -> int:
        return self.geometry.transformer_blocks // 2

    def _takes(self, layer: int) -> bool:
        return layer >= self.geometry.transformer_blocks - self._pairs
