"""Delta Attention Residuals: the ordinary residual stream, plus what depth attention finds among its updates."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from torch import Tensor

from attnres_cli.residual.block_sums import BlockConfig, BlockSums
from attnres_cli.residual.precision import widen
from attnres_cli.residual.protocol import Cost, Geometry, Norm, Site, State, SublayerInput


class Config(BlockConfig):
    """[residual] scheme = "delta-attnres". Updates of sublayers are the sources, or, with one of the two sizes, their
    sums over blocks."""

    # The mixture is added to something: weights that do not add up to one, or fewer sources, would be another method.
    ignored_keys: ClassVar[tuple[str, ...]] = ("normaliser", "window", "embedding_source", "final_mix")

    scheme: Literal["delta-attnres"] = "delta-attnres"


class Scheme(BlockSums):
    """State: the stream h̃ = embedding + all updates, then the updates as sources; the embedding is none of them.

    Zero queries add the mean of the updates to the stream, so no other scheme is equal at first. With no update yet the
    stream is all there is; with one, its weight is 1.
    """

    equals_at_initialisation = None
    fuses = False
    citation = "Luo, Cai & Hu, Delta Attention Residuals, arXiv 2605.18855"
    formula = "h_l = h̃_l + Σ_i softmax_i(w_l · RMSNorm(Δ_i)) Δ_i,  h̃_l = embedding + Σ_i Δ_i"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        if config.num_blocks is None and config.block_sublayers is None:
            config = config.model_copy(update={"block_sublayers": 1})
        super().__init__(config, geometry)
        self.equals_at_initialisation = None

    def open(self, embedding: Tensor) -> State:
        return (widen(embedding),)

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        return site.norm(self._routed(state, site.ordinal)), state

    def write(self, state: State, site: Site, output: Tensor) -> State:
        stream, updates = state[0] + output, state[1:]
        if self._joins[site.ordinal]:
            return (stream, *updates[:-2], *self._born(updates[-2] + output))
        return (stream, *updates, *self._born(output))

    def close(self, state: State, final_norm: Norm) -> Tensor:
        return final_norm(self._routed(state, self.geometry.num_sublayers))

    def stream(self, state: State) -> Tensor:
        """The ordinary stream h̃."""
        return state[0]

    def depth_weights(self, state: State, ordinal: int) -> Any:
        return super().depth_weights(state[1:], ordinal) if len(state) > 1 else None

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        return ("stream", *super().state_spec(ordinal))

    def births(self) -> int:
        """The embedding is none of the sources."""
        return self.geometry.num_sublayers

    def cost(self) -> Cost:
        """As for the sources alone; adding the mixture to the stream is d per site."""
        base, d = super().cost(), float(self.geometry.d_model)
        flops = base.forward_flops_per_token + d * self.geometry.num_sublayers
        return Cost(base.parameters, flops, base.live_elements_per_token + d)

    def _routed(self, state: State, ordinal: int) -> Tensor:
        return state[0] + self._mixed(state[1:], ordinal) if len(state) > 1 else state[0]

    def _names_by_site(self) -> tuple[tuple[str, ...], ...]:
        return tuple(names[1:] for names in super()._names_by_site())
