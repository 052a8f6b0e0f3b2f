"""Shapes of a trunk, and what all shapes of one sweep inherit from the preset it started from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from attnres_cli.preset.schema import ModelConfig


@dataclass(frozen=True)
class Shape:
    """The integers that decide a trunk's size. head_dim: channels per head; d_ff: hidden width of the feed-forward."""

    transformer_blocks: int
    d_model: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    d_ff: int

    @classmethod
    def of(cls, model: ModelConfig) -> Self:
        """The shape of a preset's [model] section."""
        return cls(
            transformer_blocks=model.transformer_blocks,
            d_model=model.d_model,
            num_heads=model.num_heads,
            num_kv_heads=model.resolved_num_kv_heads,
            head_dim=model.resolved_head_dim,
            d_ff=model.resolved_d_ff,
        )

    @property
    def ratio(self) -> float:
        """d_model / L_b as realised."""
        return self.d_model / self.transformer_blocks

    @property
    def head_ratio(self) -> float:
        """heads / L_b as realised."""
        return self.num_heads / self.transformer_blocks

    def settings(self) -> dict[str, int]:
        """The keys of a preset that make it this shape."""
        return {f"model.{key}": value for key, value in asdict(self).items()}

    def __str__(self) -> str:
        return (
            f"L_b {self.transformer_blocks} × d_model {self.d_model} "
            f"({self.num_heads} heads of {self.head_dim}, d_ff {self.d_ff})"
        )


@dataclass(frozen=True)
class Counts:
    """What a real model of some shape and scheme holds and costs, counted on the meta device.

    training_flops_per_token: forward and backward of one training token at the preset's context, head included.
    """

    parameters: int
    non_embedding_parameters: int
    training_flops_per_token: float

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**values)


@dataclass(frozen=True)
class Family:
    """What every shape of a sweep keeps from the preset's own.

    d_model_per_head: d_model / heads; a shape's width is heads × an even number near it. attention_width: heads ×
    head_dim / d_model (1 in most models). kv_group: query heads per key/value head. d_ff_ratio: d_ff / d_model.
    """

    d_model_per_head: float
    attention_width: float
    kv_group: int
    d_ff_ratio: float

    @classmethod
    def of(cls, shape: Shape) -> Self:
        return cls(
            d_model_per_head=shape.d_model / shape.num_heads,
            attention_width=shape.num_heads * shape.head_dim / shape.d_model,
            kv_group=shape.num_heads // shape.num_kv_heads,
            d_ff_ratio=shape.d_ff / shape.d_model,
        )

    def shape(self, transformer_blocks: int, num_heads: int, d_model: int, d_ff: int) -> Shape:
        """The member of this family with these integers; num_heads has to be a multiple of kv_group."""
        assert num_heads % self.kv_group == 0, "heads do not divide into groups"
        return Shape(
            transformer_blocks=transformer_blocks,
            d_model=d_model,
            num_heads=num_heads,
            num_kv_heads=num_heads // self.kv_group,
            head_dim=_nearest_even(self.attention_width * d_model / num_heads),
            d_ff=d_ff,
        )

    def scaled(self, reference: Shape, transformer_blocks: int) -> Shape:
        """The member with this depth and the reference's d_model / L_b, as near as whole heads allow."""
        head_size = _nearest_even(self.d_model_per_head)
        groups = max(1, round(reference.ratio * transformer_blocks / head_size / self.kv_group))
        d_model = groups * self.kv_group * head_size
        return self.shape(transformer_blocks, groups * self.kv_group, d_model, 4 * round(self.d_ff_ratio * d_model / 4))


def _nearest_even(value: float) -> int:
    return max(2, 2 * round(value / 2))
