"""Multi-Gate Residuals: a few streams, each drawn towards every sublayer's output by a gate of its own; sublayers read
their softmax-weighted mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from attnres_cli.preset.schema import Complaint, OnlyWith
from attnres_cli.residual.backends import Backend, BackendConfig
from attnres_cli.residual.holding import are_held, held
from attnres_cli.residual.mixing import weighted_sum
from attnres_cli.residual.parameters import Own, OwnParameters, Places, Role, values, zeros
from attnres_cli.residual.precision import full_precision, widen
from attnres_cli.residual.protocol import Cost, Geometry, Norm, Residual, Site, State, SublayerInput


class Config(BackendConfig):
    """[residual] scheme = "multi-gate"."""

    scheme: Literal["multi-gate"] = "multi-gate"
    num_streams: Annotated[int, Field(ge=2)] = Field(4, description="residual streams (the paper's n)")
    seeding: Literal["outputs", "embedding"] = Field(
        "outputs",
        description="what the streams start as: the embedding and the first n - 1 sublayer outputs, or n embeddings",
    )
    gate_bias: float | None = Field(
        None,
        description="first bias of the gates; without it -ln(sqrt(G / 21) (e³ + 1) - n), G gated sublayers",
    )
    bias_step: Annotated[float, Field(gt=0), OnlyWith("seeding", ("embedding",))] = Field(
        1.0, description="how far the first biases of neighbouring streams lie apart; equal streams would stay equal"
    )

    def check(self, preset: Any) -> Iterator[Complaint]:
        """Faults that show only together with the model's depth."""
        sublayers = preset.model.num_sublayers
        if self.seeding == "outputs" and self.num_streams > sublayers:
            yield Complaint(
                "num_streams",
                f"num_streams = {self.num_streams} leaves none of the {sublayers} sublayers to be gated: the first "
                "n - 1 outputs become streams.",
                f"2 to {sublayers}",
                also=("seeding", "model.transformer_blocks"),
            )
        elif self.gate_bias is None and first_gate_bias(sublayers - first_gated(self), self.num_streams) is None:
            yield Complaint(
                "gate_bias",
                f"The paper's formula gives no gate bias for {self.num_streams} streams and {sublayers} sublayers.",
                "a number, such as -2.0",
                also=("num_streams", "model.transformer_blocks"),
            )


def first_gated(config: Config) -> int:
    """Ordinal of the first sublayer whose output is gated into the streams; those before become streams."""
    return config.num_streams - 1 if config.seeding == "outputs" else 0


def first_gate_bias(gated_sublayers: int, num_streams: int) -> float | None:
    """The paper's first bias, about -3 at 21 gated sublayers and falling so that σ(b) ∝ 1/√G; None where its logarithm
    has no argument."""
    argument = math.sqrt(gated_sublayers / 21.0) * (math.exp(3.0) + 1.0) - num_streams
    return -math.log(argument) if argument > 0.0 else None


class Scheme(Residual):
    """At sublayer l with streams s_1 … s_k, ŝ = s / rms(s) without gain:

        h = Σ_i softmax_i(w_α · ŝ_i / √d) s_i          the sublayer reads Norm(h)
        s_i ← (1 - β_i) s_i + β_i f(Norm(h)),   β_i = σ(w_β · ŝ_i / √d + b_i)

    While there are fewer than n streams, a sublayer's output becomes a further one instead of being gated (the paper's
    two phases; seeding = "outputs"). The head sees the streams pooled once more by a query of its own, then the final
    norm. w_α = w_β = 0 at first, so plain means are pooled. The first sublayer has no query: there is one stream, or
    only equal ones. Of the paper's two gates this is the independent one.
    """

    citation = "Zheng et al., Multi-Gate Residuals, arXiv 2605.23259"
    formula = "s_i ← (1 - β_i) s_i + β_i f(Norm(h)),  h = Σ_i softmax_i(w_α · RMSNorm(s_i) / √d) s_i,  β_i = σ(·)"
    config: Config

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        self.backend = Backend(config.backend)
        self.first_gated = first_gated(config)
        self.sites = Places(OwnParameters(**self._declared(ordinal)) for ordinal in range(geometry.num_sublayers))
        self.output = OwnParameters(query=Own((geometry.d_model,), zeros, Role.DEPTH_QUERY))

    def prepare(self, device: torch.device) -> str:
        return self.backend.prepare(device)

    # ---- the steps of the trunk; a stream is two tensors, itself and the 1/rms of its key

    def open(self, embedding: Tensor) -> State:
        streams = 1 if self.config.seeding == "outputs" else self.config.num_streams
        return self._stream(widen(embedding)) * streams

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        return site.norm(self._pooled(state, site.ordinal)), state

    def write(self, state: State, site: Site, output: Tensor) -> State:
        output = widen(output)
        if site.ordinal < self.first_gated:
            return state + self._stream(output)
        own = self.sites.at(site.ordinal)
        query = self._scaled(own.gate_query)
        new: State = ()
        for which, stream, inverse_rms in zip(self._streams(site.ordinal), state[0::2], state[1::2], strict=True):
            with full_precision(stream):
                logit = torch.matmul(stream, query) * inverse_rms + own.gate_bias[which]
            new += self._stream(torch.lerp(stream, output, held(torch.sigmoid(logit)).unsqueeze(-1)))
        return new

    def close(self, state: State, final_norm: Norm) -> Tensor:
        return final_norm(self._pooled(state, self.geometry.num_sublayers))

    def stream(self, state: State) -> Tensor:
        """The mean of the streams there are."""
        return torch.stack(state[0::2]).mean(0)

    def stream_parts(self, state: State) -> tuple[Tensor, ...]:
        return state[0::2]

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        return tuple(part for name in self._names(ordinal) for part in (name, f"inverse_rms({name})"))

    def depth_weights(self, state: State, ordinal: int) -> tuple[tuple[str, ...], Tensor] | None:
        if ordinal == 0:
            return None
        names, query = self._names(ordinal), self._scaled(self._query(ordinal))
        taken = tuple(names[index] for index in self.alteration.taken(ordinal, names))
        return taken, self.backend.op.weights(*self._taken(state, ordinal), query)

    def cost(self) -> Cost:
        """Pooling 4 d per stream; a new or changed stream's mean square 2 d; a gate's dot product 2 d and the step
        towards the output 3 d."""
        n, d, sublayers = self.config.num_streams, self.geometry.d_model, self.geometry.num_sublayers
        gated = sublayers - self.first_gated
        pooled = sum(len(self._names(ordinal)) for ordinal in range(1, sublayers + 1))
        flops = 4 * d * pooled + 2 * d * (1 + self.first_gated) + gated * n * (2 + 5) * d
        return Cost(self.own_parameters(), float(flops), float(n * (d + 1)))

    # ---- parts

    def _pooled(self, state: State, ordinal: int) -> Tensor:
        if ordinal == 0:
            return state[0]
        streams, inverse_rms = self._taken(state, ordinal)
        query = self._scaled(self._query(ordinal))
        if are_held():
            return weighted_sum(streams, held(self.backend.op.weights(streams, inverse_rms, query)).unsqueeze(-1))
        return self.backend.op.mix(streams, inverse_rms, query)

    def _taken(self, state: State, ordinal: int) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """The streams that site `ordinal` may take, and the 1/rms of their keys."""
        if not self.alteration.masked:
            return state[0::2], state[1::2]
        taken = self.alteration.taken(ordinal, self._names(ordinal))
        return [state[2 * index] for index in taken], [state[2 * index + 1] for index in taken]

    def _stream(self, value: Tensor) -> State:
        return value, self.backend.op.inverse_rms(value, self.geometry.norm_epsilon)

    def _query(self, ordinal: int) -> Tensor:
        place = self.output if ordinal == self.geometry.num_sublayers else self.sites.at(ordinal)
        return place.query

    def _scaled(self, query: Tensor) -> Tensor:
        return widen(query) / math.sqrt(self.geometry.d_model)

    def _names(self, ordinal: int) -> tuple[str, ...]:
        return tuple(f"stream {which}" for which in self._streams(ordinal))

    def _streams(self, ordinal: int) -> list[int]:
        """The streams that sublayer `ordinal` sees; seeded by outputs, stream i is that of sublayer i - 1."""
        n = self.config.num_streams
        if self.config.seeding == "embedding":
            return [*range(n)]
        return [which for which in range(min(1 + ordinal, n)) if which - 1 not in self.alteration.removed]

    def _declared(self, ordinal: int) -> dict[str, Own]:
        declared: dict[str, Own] = {}
        if ordinal > 0:
            declared["query"] = Own((self.geometry.d_model,), zeros, Role.DEPTH_QUERY)
        if ordinal >= self.first_gated:
            declared["gate_query"] = Own((self.geometry.d_model,), zeros)
            declared["gate_bias"] = Own((self.config.num_streams,), values(self._first_biases()))
        return declared

    def _first_biases(self) -> list[float]:
        """One bias for all streams that start apart; around it, falling from the first stream, for equal ones."""
        n, bias = self.config.num_streams, self.config.gate_bias
        if bias is None:
            bias = first_gate_bias(self.geometry.num_sublayers - self.first_gated, n)
            assert bias is not None  # the configuration was checked against the depth
        step = self.config.bias_step if self.config.seeding == "embedding" else 0.0
        return [bias + step * ((n - 1) / 2 - which) for which in range(n)]
