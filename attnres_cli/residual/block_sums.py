"""Sources that are sums of outputs: L sublayers are cut into blocks, and within a block the outputs are added up.

The first sublayer of a block sees no partial sum, because there is none yet; every later one sees exactly one.
(arXiv 2603.15031, Eq. 5–6.)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Annotated, Any, ClassVar

from pydantic import Field

from attnres_cli.errors import UserError
from attnres_cli.preset.schema import Complaint
from attnres_cli.residual.depth_attention import DepthAttention
from attnres_cli.residual.depth_config import DepthAttentionConfig
from attnres_cli.residual.protocol import Geometry

# The paper: N ≈ 8 recovers most of what one source per sublayer gains.
DEFAULT_NUM_BLOCKS = 8


class BlockConfig(DepthAttentionConfig):
    """At most one of the two sizes; neither: 8 blocks, or L where L is smaller."""

    exclusive_keys: ClassVar[tuple[tuple[str, ...], ...]] = (("num_blocks", "block_sublayers"),)

    num_blocks: Annotated[int, Field(gt=0)] | None = Field(
        None,
        description="AttnRes blocks (the paper's N): L // N sublayers each and the rest in the last; default min(8, L)",
    )
    block_sublayers: Annotated[int, Field(gt=0)] | None = Field(
        None,
        description="sublayers per AttnRes block (the paper's S); L mod S are left for the last",
    )

    def check(self, preset: Any) -> Iterator[Complaint]:
        """Faults that show only together with the model's depth and width."""
        yield from DepthAttentionConfig.check(self, preset)
        try:
            block_sizes(preset.model.num_sublayers, self.num_blocks, self.block_sublayers)
        except UserError as error:
            fault = error.faults[0]
            key = (fault.where or "").removeprefix("residual.")
            yield Complaint(key, fault.what, fault.expected, ("model.transformer_blocks",))

    def notes(self, preset: Any) -> Iterator[str]:
        """Blocks longer than the model, beside what is said of a window."""
        yield from DepthAttentionConfig.notes(self, preset)
        sublayers = preset.model.num_sublayers
        if self.block_sublayers is not None and self.block_sublayers > sublayers:
            yield (
                f"residual.block_sublayers = {self.block_sublayers} is more than the model's {sublayers} sublayers: "
                f"one block, the same model as with {sublayers}"
            )

    def sublayer_sources(self, preset: Any) -> int:
        """One per block."""
        return len(block_sizes(preset.model.num_sublayers, self.num_blocks, self.block_sublayers))


def block_sizes(num_sublayers: int, num_blocks: int | None, block_sublayers: int | None) -> tuple[int, ...]:
    """Sublayers in each block, first to last.

    `block_sublayers` = S: ⌈L/S⌉ blocks, L mod S sublayers in the last one where that is not zero (all of them, where
    S is more than L). `num_blocks` = N: exactly N blocks of ⌊L/N⌋, the rest in the last. Raises UserError when there
    are more blocks than sublayers.
    """
    if block_sublayers is not None:
        whole, rest = divmod(num_sublayers, block_sublayers)
        return (block_sublayers,) * whole + ((rest,) if rest else ())
    blocks = min(DEFAULT_NUM_BLOCKS, num_sublayers) if num_blocks is None else num_blocks
    if blocks > num_sublayers:
        raise UserError(
            f"num_blocks = {blocks} is more than the model's {num_sublayers} sublayers "
            f"(attention and feed-forward count apart).",
            where="residual.num_blocks",
            expected=f"1 to {num_sublayers}",
        )
    size, rest = divmod(num_sublayers, blocks)
    return (size,) * (blocks - 1) + (size + rest,)


class BlockSums(DepthAttention):
    """Sources: b_0 = embedding, then one sum per block, the last of them still growing."""

    def __init__(self, config: Any, geometry: Geometry) -> None:
        sizes = block_sizes(geometry.num_sublayers, config.num_blocks, config.block_sublayers)
        first_of_block = frozenset(accumulate((0, *sizes[:-1])))
        super().__init__(config, geometry, [ordinal not in first_of_block for ordinal in range(sum(sizes))])

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """Sublayers in each block, first to last."""
        return block_sizes(self.geometry.num_sublayers, self.config.num_blocks, self.config.block_sublayers)

    def source_label(self, ordinal: int) -> str:
        return f"block {list(accumulate((0, *self.block_sizes))).index(ordinal) + 1}"

    def num_blocks(self) -> int | None:
        return len(self.block_sizes)

    def segments(self) -> list[tuple[int, int]]:
        """The blocks: between them the state is the block representations, each of which is kept once."""
        ends = list(accumulate(self.block_sizes))
        return list(zip([0, *ends], ends, strict=False))

    def summary(self) -> str:
        sizes = self.block_sizes
        split = f"{len(sizes)} block{'s' * (len(sizes) > 1)} of {sizes[0]} sublayer{'s' * (sizes[0] > 1)}"
        if sizes[-1] != sizes[0]:
            split += f", the last of {sizes[-1]}"
        return f"{self.geometry.num_sublayers} sublayers in {split}"
