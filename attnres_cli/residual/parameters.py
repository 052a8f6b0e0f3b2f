"""A scheme's own parameters: each is declared once, with its first value and how it is trained.

From the declarations follow the initial values, the optimiser groups and the parameter count, for every scheme alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

# Fills a tensor in place; whatever is random in it comes from the generator, which lives on the CPU.
Initial = Callable[[Tensor, torch.Generator], None]


class Role(Enum):
    """What a parameter is, which decides its optimiser group; never guessed from its shape."""

    EMBEDDING = "embedding"
    HEAD = "head"
    MATRIX = "matrix"
    NORM_GAIN = "norm gain"
    DEPTH_QUERY = "depth query"
    DEPTH_GAIN = "depth gain"
    # Of a residual scheme: numbers and vectors that weigh what is carried through depth, and the biases of its gates.
    SCHEME_WEIGHT = "scheme weight"
    # Of a residual scheme: matrices that multiply activations. AdamW, with weight decay.
    SCHEME_MATRIX = "scheme matrix"


@dataclass(frozen=True)
class ParameterGroup:
    """How the optimiser treats one parameter.

    split_rows: row counts of the matrices fused into this one (q, k, v), which Muon orthogonalises apart.
    """

    role: Role
    weight_decay: bool
    learning_rate_factor: float = 1.0
    split_rows: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Own:
    """One parameter of a scheme. Weight decay follows the role: matrices alone take it.

    trainable False: it keeps its first value; the optimiser never sees it.
    """

    shape: tuple[int, ...]
    initial: Initial
    role: Role = Role.SCHEME_WEIGHT
    learning_rate_factor: float = 1.0
    trainable: bool = True

    @property
    def group(self) -> ParameterGroup:
        return ParameterGroup(self.role, self.role is Role.SCHEME_MATRIX, self.learning_rate_factor)


class OwnParameters(nn.Module):
    """The declared parameters of one place (a site, a transformer block, the output), read as attributes."""

    def __init__(self, **declared: Own) -> None:
        super().__init__()
        self.declared = declared
        for name, own in declared.items():
            self.register_parameter(name, nn.Parameter(torch.empty(own.shape), requires_grad=own.trainable))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Tensor: ...


class Places(nn.ModuleList):
    """One `OwnParameters` per place, in order of depth; named `<this>.<index>.<parameter>` in the state dict."""

    def at(self, index: int) -> OwnParameters:
        return cast(OwnParameters, self[index])


def declarations(scheme: nn.Module) -> Iterator[tuple[str, Own]]:
    """(name in the scheme's state dict, declaration) of every own parameter that was declared."""
    for path, module in scheme.named_modules():
        if isinstance(module, OwnParameters):
            for name, own in module.declared.items():
                yield f"{path}.{name}" if path else name, own


# ---- first values: objects and not closures, so that a model that holds them can be pickled


@dataclass(frozen=True)
class constant:
    """Every element `value`."""

    value: float

    def __call__(self, tensor: Tensor, generator: torch.Generator) -> None:
        tensor.fill_(self.value)


zeros = constant(0.0)
ones = constant(1.0)


@dataclass(frozen=True)
class values:
    """A nested list of numbers (or one number), broadcast to the parameter's shape."""

    table: object

    def __call__(self, tensor: Tensor, generator: torch.Generator) -> None:
        tensor.copy_(torch.as_tensor(self.table, dtype=torch.float64))


@dataclass(frozen=True)
class normal:
    """N(0, std²), around `mean`."""

    std: float
    mean: float = 0.0

    def __call__(self, tensor: Tensor, generator: torch.Generator) -> None:
        tensor.copy_(torch.empty(tensor.shape).normal_(0.0, self.std, generator=generator))
        if self.mean:
            tensor.add_(self.mean)


@dataclass(frozen=True)
class uniform:
    """U(-bound, bound)."""

    bound: float

    def __call__(self, tensor: Tensor, generator: torch.Generator) -> None:
        tensor.copy_(torch.empty(tensor.shape).uniform_(-self.bound, self.bound, generator=generator))


def inverse_sigmoid(probability: float) -> float:
    """The logit whose sigmoid is `probability`: biases of gates."""
    return math.log(probability / (1.0 - probability))
