"""LIMe: keys and values of every attention are learned combinations of those of all heads of all layers so far
(layer-integrated memory). The residual stream is PreNorm's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from attnres_cli.preset.schema import ResidualConfig
from attnres_cli.residual.arms import BASELINE
from attnres_cli.residual.one_stream import OneStream
from attnres_cli.residual.parameters import Own, OwnParameters, Places
from attnres_cli.residual.precision import full_precision, widen
from attnres_cli.residual.protocol import Cost, Geometry, Site, State


class Config(ResidualConfig):
    """[residual] scheme = "lime"."""

    scheme: Literal["lime"] = "lime"
    initial_others: Literal["uniform", "zero"] = Field(
        "uniform", description="first weights of earlier layers: uniform with variance 1/fan-in, or 0: the baseline"
    )


class Scheme(OneStream):
    """State: the stream, then keys and values (in one tensor, before rotary embedding, unrouted) of every layer that a
    later one may take: [B, key/value heads, T, 2 × head size] each, in at least float32.

    An attention that is removed leaves no keys and values, and the weights of the others stay what they are.

    R of layer l (from 0) is [H, (l + 1) H] with H key/value heads, columns by layer and then head; keys and values
    share it. Layer 0 has none. Its last H columns start as the identity, the others at U(±sqrt(3 / ((l + 1) H))) as in
    the published code, so the model does not start as PreNorm; with initial_others = "zero" it does. R weighs what is
    carried through depth and takes no weight decay: decay would pull the identity to zero.
    """

    citation = "Gerasimov et al., You Do Not Fully Utilize Transformer's Representation Capacity, arXiv 2502.09245"
    formula = "(K̃, Ṽ)^l_i = Σ_{l' ≤ l} Σ_j R^l_{i,(l',j)} (K, V)^{l'}_j for l > 0;  h ← h + f(Norm(h))"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        if config.initial_others == "zero":
            self.equals_at_initialisation = BASELINE
        self.layers = Places(self._router(layer) for layer in range(geometry.transformer_blocks))

    def project(
        self, state: State, site: Site, q: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, State]:
        own = torch.cat([widen(k), widen(v)], dim=-1)
        stream, *earlier = state
        if site.layer > 0:
            routed = self._routed(site.layer, [*earlier, own])
            k, v = (part.to(k.dtype) for part in routed.chunk(2, dim=-1))
        if site.layer < self.geometry.transformer_blocks - 1:
            state = (stream, *earlier, own)
        return q, k, v, state

    def write(self, state: State, site: Site, output: Tensor) -> State:
        return (state[0] + output, *state[1:])

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        """From each attention's own `project` on; the last layer's keys and values serve nobody later."""
        layers = min(ordinal // 2 + 1, self.geometry.transformer_blocks - 1)
        return ("stream", *(f"keys and values of layer {layer}" for layer in range(layers)))

    def cost(self) -> Cost:
        """Per layer but the first a multiply-add for each of its weights and the 2 × head size channels of a head."""
        parameters, blocks = self.own_parameters(), self.geometry.transformer_blocks
        both = 2 * self.geometry.head_dim
        kept = (blocks - 1) * self.geometry.num_kv_heads * both
        return Cost(parameters, 2.0 * both * parameters, float(self.geometry.d_model + kept))

    def _routed(self, layer: int, memory: list[Tensor]) -> Tensor:
        """Σ over layers of R's square for that layer times its keys and values; [B, H, T, 2 × head size]."""
        shape = memory[0].shape
        heads = self.geometry.num_kv_heads
        of_every_layer = torch.split(widen(self.layers.at(layer).router), heads, dim=1)
        squares = [each for at, each in enumerate(of_every_layer) if 2 * at not in self.alteration.removed]
        with full_precision(memory[0]):
            total = memory[0].new_zeros(()).expand(shape[0], heads, shape[2] * shape[3])
            for square, kv in zip(squares, memory, strict=True):
                # One product per layer: joining the layers first would copy them all, for every layer anew.
                total = torch.baddbmm(total, square.expand(shape[0], -1, -1), kv.flatten(2))
        return total.view(shape)

    def _router(self, layer: int) -> OwnParameters:
        if layer == 0:
            return OwnParameters()
        heads = self.geometry.num_kv_heads
        initial = _IdentityOnOwn(heads, others=self.config.initial_others == "uniform")
        return OwnParameters(router=Own((heads, (layer + 1) * heads), initial))


@dataclass(frozen=True)
class _IdentityOnOwn:
    """[heads, fan-in]: the identity on the last columns; the others U(±sqrt(3 / fan-in)), or 0."""

    heads: int
    others: bool

    def __call__(self, tensor: Tensor, generator: torch.Generator) -> None:
        bound = (3.0 / tensor.shape[1]) ** 0.5 if self.others else 0.0
        tensor.copy_(torch.empty(tensor.shape).uniform_(-bound, bound, generator=generator))
        tensor[:, -self.heads :] = torch.eye(self.heads)
