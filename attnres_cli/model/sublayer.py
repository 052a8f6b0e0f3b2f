"""What the trunk asks of a sublayer: a function of its normalised input, and a declaration of its matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from attnres_cli.model.cache import LayerCache
from attnres_cli.residual.protocol import SublayerInput

# What attention hands its q, k, v to before rotary embedding; None where the residual scheme leaves them alone.
Project = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


@dataclass(frozen=True)
class MatrixSpec:
    """One weight matrix. roles names it, or each of the matrices fused into it, for a scheme's gain; split_rows: the
    rows of each of these; writes_residual: its output is added to the stream, so its initial standard deviation is
    divided by sqrt(2 L_b)."""

    roles: tuple[str, ...]
    writes_residual: bool
    split_rows: tuple[int, ...] | None = None


class Sublayer(nn.Module, ABC):
    """Attention or feed-forward, without norm and without residual. Found by file in model/mixers,
    model/feed_forward."""

    @abstractmethod
    def forward(self, x: SublayerInput, project: Project | None = None) -> Tensor:
        """Normalised input [B, T, d] (or one per role) to output [B, T, d]."""

    @abstractmethod
    def matrices(self) -> dict[str, MatrixSpec]:
        """Every weight matrix by its parameter name in this module."""

    @abstractmethod
    def forward_flops_per_token(self, context_tokens: int) -> float:
        """Multiply-add = 2; causal attention over T tokens counts T / 2 keys per query."""


class SequenceMixer(Sublayer, ABC):
    """The sublayer in which tokens see earlier ones, and so the only one that has to know of those read before."""

    @abstractmethod
    def forward(self, x: SublayerInput, project: Project | None = None, cache: LayerCache | None = None) -> Tensor:
        """As every sublayer; with a cache, the T tokens follow those that it holds, and it holds them, too, from then
        on."""
