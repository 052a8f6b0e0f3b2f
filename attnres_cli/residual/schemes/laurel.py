"""LAuReL: the skip connection itself is learned, by two weights (RW), a low-rank map of the stream (LR), or a low-rank
map of a learned mixture of all earlier streams (PA)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from attnres_cli.preset.schema import Complaint, OnlyWith, PositiveInt, ResidualConfig
from attnres_cli.residual.arms import BASELINE
from attnres_cli.residual.mixing import weighted_sum
from attnres_cli.residual.one_stream import OneStream
from attnres_cli.residual.parameters import Own, OwnParameters, Places, Role, constant, normal, ones, zeros
from attnres_cli.residual.precision import widen
from attnres_cli.residual.protocol import Cost, Geometry, Norm, Site, State, SublayerInput

LOW_RANK = ("lr", "pa", "rw+lr", "rw+pa")
WEIGHTED = ("rw", "rw+lr", "rw+pa")


class Config(ResidualConfig):
    """[residual] scheme = "laurel"."""

    scheme: Literal["laurel"] = "laurel"
    variant: Literal["rw", "lr", "pa", "rw+lr", "rw+pa"] = Field(
        "rw+lr", description="rw: weights of output and skip; lr: low-rank map of the stream; pa: of earlier streams"
    )
    rank: Annotated[PositiveInt | None, OnlyWith("variant", LOW_RANK)] = Field(
        None, description="rank r of the low-rank maps; without it d_model / 16, at least 1"
    )
    normalise: Annotated[Literal["softmax", "sigmoid", "none"], OnlyWith("variant", WEIGHTED)] = Field(
        "softmax", description="how the two weights are kept in (0, 2): as a pair that adds up to 2, each alone, or not"
    )

    def check(self, preset: Any) -> Iterator[Complaint]:
        d = preset.model.d_model
        if self.rank is not None and self.rank > d:
            message = f"rank = {self.rank} is more than the model's width {d}."
            yield Complaint("rank", message, f"1 to {d}", ("model.d_model",))


class Scheme(OneStream):
    """x_i is the stream before sublayer i (from 0); state: the stream, and for PA all earlier ones before it.

    RW: α, β = 2 softmax(a, b) or 2 sigmoid of each, a = b = 0 at first; the source bounds them so without the 2,
    which here makes every variant start as PreNorm. "none": α, β themselves, 1 at first.
    LR: A_i [r, d] ~ N(0, 1/d), B_i [d, r] = 0 at first. PA: the same maps, of the sublayer's own, applied to
    Σ_{j<i} γ_{i,j} x_j, which is the sum of the maps of each; γ_{i,j} = 1/i at first. The first sublayer has no earlier
    stream and no map. "rw+…": β weighs the map, too.
    """

    equals_at_initialisation = BASELINE
    citation = "Menghani et al., LAuReL, arXiv 2411.07501"
    formula = (
        "rw: x ← α f(Norm(x)) + β x;  lr: x ← f(Norm(x)) + x + B A x;  pa: x_{i+1} = f(Norm(x_i)) + x_i + B A Σ γ x_j"
    )

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        self.rank = config.rank or max(geometry.d_model // 16, 1)
        self.weighs = config.variant in WEIGHTED
        self.keeps_all = config.variant in ("pa", "rw+pa")
        self.sites = Places(self._site(ordinal) for ordinal in range(geometry.num_sublayers))

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        return site.norm(state[-1]), state

    def write(self, state: State, site: Site, output: Tensor) -> State:
        *earlier, x = state
        own = self.sites.at(site.ordinal)
        skip = x
        if "down" in own.declared:
            source = weighted_sum(earlier, own.gamma.unbind()) if self.keeps_all else x
            skip = skip + widen(F.linear(F.linear(source, own.down), own.up))
        if self.weighs:
            alpha, beta = self._weights(own)
            new = torch.addcmul(alpha * widen(output), beta, skip)
        else:
            new = skip + output
        return (*state, new) if self.keeps_all else (new,)

    def skip(self, state: State, site: Site) -> State:
        """Where all streams are kept, that after a sublayer that is not there is the one before it."""
        return (*state, state[-1]) if self.keeps_all else state

    def close(self, state: State, final_norm: Norm) -> Tensor:
        return final_norm(state[-1])

    def stream(self, state: State) -> Tensor:
        """The residual stream, the newest one."""
        return state[-1]

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        if not self.keeps_all:
            return ("stream",)
        return tuple(f"stream {earlier}" for earlier in range(ordinal + 1))

    def cost(self) -> Cost:
        """RW: 3 d per site; a low-rank map: 4 d r and its addition (d); PA's mixture: 2 d per earlier stream."""
        d, sublayers = self.geometry.d_model, self.geometry.num_sublayers
        maps = sum("down" in self.sites.at(ordinal).declared for ordinal in range(sublayers))
        flops = 3.0 * d * sublayers * self.weighs + maps * (4.0 * d * self.rank + d)
        flops += 2.0 * d * (sublayers * (sublayers - 1) // 2) * self.keeps_all
        streams = sublayers + 1 if self.keeps_all else 1
        return Cost(self.own_parameters(), flops, float(d * streams))

    def _weights(self, own: OwnParameters) -> tuple[Tensor, Tensor]:
        alpha, beta = widen(own.alpha), widen(own.beta)
        if self.config.normalise == "softmax":
            alpha, beta = (2 * torch.softmax(torch.stack([alpha, beta]), dim=0)).unbind()
        elif self.config.normalise == "sigmoid":
            alpha, beta = 2 * torch.sigmoid(alpha), 2 * torch.sigmoid(beta)
        return alpha, beta

    def _site(self, ordinal: int) -> OwnParameters:
        d = self.geometry.d_model
        own: dict[str, Own] = {}
        if self.weighs:
            initial = ones if self.config.normalise == "none" else zeros
            own |= {"alpha": Own((), initial), "beta": Own((), initial)}
        if self.config.variant in LOW_RANK and (ordinal > 0 or not self.keeps_all):
            own["down"] = Own((self.rank, d), normal(d**-0.5), Role.SCHEME_MATRIX)
            own["up"] = Own((d, self.rank), zeros, Role.SCHEME_MATRIX)
            if self.keeps_all:
                own["gamma"] = Own((ordinal,), constant(1 / ordinal))
        return OwnParameters(**own)
