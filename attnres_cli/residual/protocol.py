"""The contract between the trunk and a residual scheme.

The trunk owns one loop and knows no scheme:

    state = residual.open(embedding)
    for site, sublayer in sites:
        x, state = residual.read(state, site)
        y = sublayer(x, project)
        state = residual.write(state, site, y)
    x = residual.close(state, final_norm)

A scheme owns what is carried through depth (`state`), what each sublayer sees, and where the norms go. The state is a
flat, immutable tuple of tensors, so that checkpointing, sharding, pipeline stages and cached decoding need to know
nothing else about it.

Where nobody looks at the state, a scheme may run the same loop through a `FusedPass`, which is free to postpone,
join and share work between steps. It gives the same numbers up to rounding; tests hold one against the other.

For evaluation a scheme can be altered (`alteration.py`). A sublayer that is removed is neither read nor written; the
trunk calls `skip` instead.

What a scheme computes from its state to weigh its state with, it passes through `holding.held`, so that probes can take
it as given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self

import torch
from torch import Tensor, nn

from attnres_cli.residual.alteration import UNALTERED, Alteration, swap_entries, twin_of
from attnres_cli.residual.norm import RMSNorm
from attnres_cli.residual.parameters import OwnParameters, ParameterGroup, Role, declarations

State = tuple[Tensor, ...]
SublayerKind = Literal["attention", "feed_forward"]
# What a sublayer sees: one tensor [B, T, d], or one per role ("q", "k", "v") where a scheme routes them apart.
SublayerInput = Tensor | Mapping[str, Tensor]


@dataclass(frozen=True)
class Geometry:
    """What a scheme must know of the trunk. num_sublayers is the paper's L, transformer_blocks its L_b = L / 2.

    num_heads, num_kv_heads, head_dim: of attention, for schemes that act on q, k and v.
    """

    d_model: int
    num_sublayers: int
    norm_epsilon: float
    num_heads: int
    num_kv_heads: int
    head_dim: int

    @property
    def transformer_blocks(self) -> int:
        return self.num_sublayers // 2


class Norm(Protocol):
    """An RMSNorm as a scheme may use it: whole, or by its gain [d] and ε inside a fused operation."""

    gain: nn.Parameter
    epsilon: float

    def __call__(self, x: Tensor) -> Tensor: ...


class FusedPass(Protocol):
    """One forward pass of a scheme's whole loop; sublayers are read and written in order, each once."""

    def read(self, site: Site) -> Tensor:
        """What the sublayer at `site` sees, already normalised, [B, T, d]."""

    def write(self, site: Site, output: Tensor) -> None:
        """Take the output [B, T, d] of the sublayer at `site`."""

    def close(self, final_norm: Norm) -> Tensor:
        """What the head sees, [B, T, d]; the pass is over."""


@dataclass(frozen=True)
class Site:
    """The place of one sublayer in depth. ordinal counts sublayers from 0 (the paper's l is ordinal + 1)."""

    ordinal: int
    layer: int
    kind: SublayerKind
    norm: Norm


@dataclass(frozen=True)
class Cost:
    """What the scheme adds to the trunk. Multiply-add = 2 FLOPs; forward only (backward = 2 × forward).

    forward_flops_per_token: mixing and its statistics; the additions of a plain residual are not counted.
    live_elements_per_token: elements per token of the state just before `close`.
    """

    parameters: int
    forward_flops_per_token: float
    live_elements_per_token: float


class Residual(nn.Module, ABC):
    """One residual scheme. Subclasses live in `residual/schemes/`, one file each, and are found there.

    The module of a scheme defines `Config` (a `ResidualConfig`) and `Scheme` (a `Residual`).
    """

    # The scheme this one equals at initialisation (same logits up to the norm epsilon), or None.
    equals_at_initialisation: str | None = None
    citation: ClassVar[str] = ""
    # One line for people, as `attnres presets ls --schemes` prints it.
    formula: ClassVar[str] = ""
    # Lists of own parameters or norms, one entry per sublayer or per transformer block, that belong to it and not to
    # its place in depth: swapped blocks take theirs along.
    belongs_to_sublayers: ClassVar[tuple[str, ...]] = ("sites",)
    # What is different in this walk; only a twin that `altered` made has anything here.
    alteration: Alteration = UNALTERED

    def __init__(self, config: Any, geometry: Geometry) -> None:
        super().__init__()
        self.config = config
        self.geometry = geometry

    def prepare(self, device: torch.device) -> str:
        """Get ready to compute on `device`, before anything else is called: choose and, where needed, build what
        computes. Returns one line about it for the banner, or nothing."""
        return ""

    @abstractmethod
    def open(self, embedding: Tensor) -> State:
        """The state before the first sublayer, from the token embedding [B, T, d]."""

    @abstractmethod
    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        """What the sublayer at `site` sees, already normalised, and the state it leaves."""

    def project(
        self, state: State, site: Site, q: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, State]:
        """Attention hands its q, k, v ([B, heads, T, head size], k and v with num_kv_heads, before rotary embedding).

        Returns what attention goes on with, and the state for `write`. Called once per attention sublayer, between its
        `read` and its `write`; default: all unchanged.
        """
        return q, k, v, state

    @abstractmethod
    def write(self, state: State, site: Site, output: Tensor) -> State:
        """The state after the sublayer at `site` gave `output` [B, T, d]."""

    def skip(self, state: State, site: Site) -> State:
        """The state where the sublayer at `site` would have been, had it not been removed; in place of `read`,
        `project` and `write`. Default: as it was. So nothing is written, and nothing that the scheme does on the
        occasion of this sublayer is done: norms and gates of its own, the mixing of streams before it."""
        return state

    @abstractmethod
    def close(self, state: State, final_norm: Norm) -> Tensor:
        """What the head sees, [B, T, d], after the final norm."""

    def altered(self, alteration: Alteration) -> Self:
        """A twin of this scheme with the same parameters, in whose walk `alteration` holds; this one stays as it is."""
        twin = twin_of(self)
        twin.alteration = alteration
        if alteration.swapped is not None:
            for part in self.belongs_to_sublayers:
                if part in self._modules:
                    swap_entries(twin, part, alteration, self.geometry.transformer_blocks)
        return twin

    def num_blocks(self) -> int | None:
        """The paper's N, where the scheme sums its sources up in blocks; else None."""
        return None

    def segments(self) -> Sequence[tuple[int, int]]:
        """Runs [first, last) of sublayers between which activation checkpointing keeps the state, and nothing else."""
        return [(first, first + 2) for first in range(0, self.geometry.num_sublayers, 2)]

    def fused_pass(self, embedding: Tensor) -> FusedPass | None:
        """The loop from this embedding [B, T, d] in fused form, or None where the steps above have to be taken one by
        one: no fused form for this scheme, device or dtype, or torch.compile is tracing."""
        return None

    @abstractmethod
    def stream(self, state: State) -> Tensor:
        """The one tensor [B, T, d] that stands for the residual stream in figures; each scheme says which."""

    def stream_parts(self, state: State) -> tuple[Tensor, ...]:
        """The tensors of the state that `stream` is made of; only these are on the way to the loss."""
        return (self.stream(state),)

    @abstractmethod
    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        """Names of the tensors in the state that `write` of sublayer `ordinal` gets, so after its `read` and, for
        attention, its `project` (num_sublayers: before `close`)."""

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """The optimiser group of each own parameter, by its name in this module; norms are known as such."""
        groups = {name: own.group for name, own in declarations(self)}
        for path, module in self.named_modules():
            if isinstance(module, RMSNorm):
                groups[f"{path}.gain"] = ParameterGroup(Role.NORM_GAIN, weight_decay=False)
        return groups

    def own_parameters(self) -> int:
        """How many numbers the scheme adds to the model."""
        return sum(parameter.numel() for parameter in self.parameters())

    def dead_parameters(self) -> dict[str, str]:
        """Own parameters that provably never get a gradient, by name in this module, each with the reason."""
        return {}

    def unused_norms(self) -> dict[int, str]:
        """Sublayers (num_sublayers: the final norm) whose norm the scheme never calls, each with the reason."""
        return {}

    @abstractmethod
    def cost(self) -> Cost:
        """Parameters, FLOPs and live memory that the scheme adds."""

    def initialise(self, parameter_name: str, parameter: Tensor, generator: torch.Generator) -> None:
        """Set an own parameter to its first value in place. Called once per own parameter, last of all init code.

        generator: seeded by the run's seed and the parameter's name, on the CPU.
        """
        path, _, name = parameter_name.rpartition(".")
        place = self.get_submodule(path)
        if isinstance(place, OwnParameters):
            place.declared[name].initial(parameter, generator)
        else:
            assert isinstance(place, RMSNorm), parameter_name
            parameter.fill_(1.0)

    def sublayer_gain(self, role: str) -> float:
        """Factor on the initial standard deviation of the sublayers' matrices: "query", "key", "value", "output" (of
        attention), "gate", "up", "down" (of the feed-forward). It is relative to one deviation for all but "output" and
        "down", which have that over sqrt(num_sublayers)."""
        return 1.0

    def depth_weights(self, state: State, ordinal: int) -> tuple[tuple[str, ...], Tensor] | None:
        """Source names and weights [sources, B, T] with which sublayer `ordinal` (num_sublayers: the output site)
        mixes.

        None for a scheme that does not choose its sources. Of an altered scheme: of the sources that are left.
        """
        return None

    def source_family(self, name: str, ordinal: int) -> str | None:
        """The kind of source that `name` is for sublayer `ordinal`, in words; sources of a family are looked at
        together. None: it is of no kind."""
        return None

    def summary(self) -> str:
        """One line about the resolved shape (the split into blocks), for `plan` and the training banner."""
        return ""
