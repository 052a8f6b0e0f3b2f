"""What schemes share that carry n streams through depth and mix them by small matrices: hyper-connections and kin.

X: the n streams of a token, [n, d]. A sublayer f reads one weighted sum of them and writes to all:

    X ← C X + w f(Norm(rᵀ X))ᵀ,   r: read weights [n], C: carry matrix [n, n], w: write weights [n]

A scheme says how the three are computed. The first X is n copies of the embedding; at the end the streams are added up.

Weights that could not act do not exist. The first sublayer's streams are all the embedding, and its norm takes away any
factor: it reads the embedding itself. Where the columns of C add up to one, C changes nothing about the sum of the
streams, which is all that is left after the last sublayer: a scheme may leave it out there.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from attnres_cli.preset.schema import ResidualConfig
from attnres_cli.residual.holding import held
from attnres_cli.residual.precision import full_precision, widen
from attnres_cli.residual.protocol import Cost, Norm, Residual, Site, State, SublayerInput


class StreamsConfig(ResidualConfig):
    """Keys that every scheme with streams has."""

    num_streams: Annotated[int, Field(ge=2)] = Field(4, description="residual streams (the paper's n)")


class Weights(NamedTuple):
    """How one site mixes, per token. read, write: [B, T, n]; carry: [B, T, n, n], row i makes the new stream i.

    read None: the first stream; carry None: the streams stay what they are.
    """

    read: Tensor | None
    carry: Tensor | None
    write: Tensor


class Streams(Residual):
    """State: the streams [B, T, n, d] in at least float32; while a sublayer runs also its carry and write weights."""

    config: StreamsConfig

    @property
    def num_streams(self) -> int:
        return self.config.num_streams

    # ---- what a scheme says

    @abstractmethod
    def weights(self, streams: Tensor, ordinal: int) -> Weights:
        """The weights at sublayer `ordinal`, from the streams before it [B, T, n, d]; called without autocast."""

    def reads(self, ordinal: int) -> bool:
        """Whether sublayer `ordinal` has read weights."""
        return ordinal > 0

    def carries(self, ordinal: int) -> bool:
        """Whether sublayer `ordinal` has a carry matrix."""
        return True

    @abstractmethod
    def weighing_flops(self, ordinal: int) -> float:
        """FLOPs per token of the weights themselves at sublayer `ordinal`."""

    # ---- the steps of the trunk

    def open(self, embedding: Tensor) -> State:
        wide = widen(embedding).unsqueeze(-2)
        return (wide.expand(*wide.shape[:-2], self.num_streams, wide.shape[-1]),)

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        (streams,) = state
        with full_precision(streams):
            found = self.weights(streams, site.ordinal)
            weights = Weights(held(found.read), held(found.carry), held(found.write))
            if weights.read is None:
                seen = streams[..., 0, :]
            else:
                seen = torch.matmul(weights.read.unsqueeze(-2), streams).squeeze(-2)
        kept = (weights.write,) if weights.carry is None else (weights.carry, weights.write)
        return site.norm(seen), (streams, *kept)

    def write(self, state: State, site: Site, output: Tensor) -> State:
        streams, *carry, weights = state
        if carry:
            with full_precision(streams):
                streams = torch.matmul(carry[0], streams)
        return (torch.addcmul(streams, weights.unsqueeze(-1), widen(output).unsqueeze(-2)),)

    def close(self, state: State, final_norm: Norm) -> Tensor:
        return final_norm(state[0].sum(-2))

    def stream(self, state: State) -> Tensor:
        """The mean of the streams: the final norm makes the same of it as of their sum, and it starts as the
        embedding."""
        return state[0].mean(-2)

    def stream_parts(self, state: State) -> tuple[Tensor, ...]:
        return (state[0],)

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        if ordinal == self.geometry.num_sublayers:
            return ("streams",)
        return ("streams", *(("carry weights",) if self.carries(ordinal) else ()), "write weights")

    def cost(self) -> Cost:
        """Per site: 2 n d to read, 2 n² d to carry, 2 n d to write, each where there is one, and the weights
        themselves; at the end (n - 1) d for the sum."""
        n, d, sublayers = self.num_streams, self.geometry.d_model, self.geometry.num_sublayers
        flops = float((n - 1) * d)
        for ordinal in range(sublayers):
            flops += 2 * n * d * (self.reads(ordinal) + n * self.carries(ordinal) + 1) + self.weighing_flops(ordinal)
        return Cost(self.own_parameters(), flops, float(n * d))
