"""HAARES: beside the sum of every finished block, a source with the block's detail, first half minus second half."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from attnres_cli.residual.block_sums import BlockConfig, BlockSums
from attnres_cli.residual.protocol import Cost, Geometry, Site, State


class Config(BlockConfig):
    """[residual] scheme = "haares"."""

    # Whether details count in a window nobody has said; they are no part of the sum that final_mix = false takes.
    ignored_keys: ClassVar[tuple[str, ...]] = ("window", "final_mix")

    scheme: Literal["haares"] = "haares"
    detail: Literal["half-split", "duplicate"] = Field(
        "half-split",
        description="the second source of a block: its halves' difference, or (a control) its sum once more",
    )

    def notes(self, preset: Any) -> Iterator[str]:
        """Blocks without a detail, beside what is said of all blocks."""
        yield from BlockConfig.notes(self, preset)
        if self.sublayer_sources(preset) == preset.model.num_sublayers:
            yield (
                "residual.detail does nothing: every block is one sublayer, which has no halves, so that there is "
                "nothing but the sums"
            )


class Scheme(BlockSums):
    """Pairs as in Block, the detail of a block right before its sum; while a block of two or more sublayers is past its
    first half, the sum of that half stands last in the state.

    A block of S sublayers has its first S // 2 in the first half. The difference is scaled to the sum's root mean
    square; no gradient runs through that factor (the first version of the paper says detached). A block of one
    sublayer has no detail. Zero queries average sums and details, so with any no other scheme is equal at first.
    """

    fuses = False
    citation = "Wang, HAARES, arXiv 2606.06564"
    formula = "sources b_0 … b_n of Block, and d_n = (Σ first half - Σ second half) · rms(b_n) / rms(same)"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        if any(size > 1 for size in self.block_sizes):
            self.equals_at_initialisation = None

    def write(self, state: State, site: Site, output: Tensor) -> State:
        pairs, half = _apart(state)
        return self._past(super().write(pairs, site, output), half, site.ordinal)

    def skip(self, state: State, site: Site) -> State:
        """A half of which nothing is left counts as zero, and a block of which nothing is left has no detail."""
        return self._past(*_apart(state), site.ordinal)

    def _past(self, pairs: State, half: State, ordinal: int) -> State:
        """The state once sublayer `ordinal` is past, with what is to be kept of its block."""
        position, size, _ = self._place(ordinal)
        if not self._has_begun(ordinal + 1, self._begun_by[ordinal]):
            return pairs
        if position == size // 2 - 1:
            half = (pairs[-2],)
        if position == size - 1 and size > 1:
            first_half = half[0] if half else torch.zeros_like(pairs[-2])
            return (*pairs[:-2], *self._born(self._detail(first_half, pairs[-2])), *pairs[-2:])
        return (*pairs, *half)

    def stream(self, state: State) -> Tensor:
        """The running block sum."""
        return _apart(state)[0][-2]

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        return (*super().state_spec(ordinal), *(["first half"] if self._half_is_kept(ordinal) else []))

    def cost(self) -> Cost:
        """As for that many sources; a half-split detail takes 8 d: difference, two mean squares, scaling."""
        base = super().cost()
        made = 8.0 * self.geometry.d_model * self._details if self.config.detail == "half-split" else 0.0
        return Cost(base.parameters, base.forward_flops_per_token + made, base.live_elements_per_token)

    def births(self) -> int:
        return super().births() + self._details

    @property
    def _details(self) -> int:
        return sum(1 for size in self.block_sizes if size > 1)

    def source_family(self, name: str, ordinal: int) -> str | None:
        return "details" if name.startswith("detail ") else super().source_family(name, ordinal)

    def _mixed_by(self, state: State, query: Any, ordinal: int) -> Tensor:
        return super()._mixed_by(_apart(state)[0], query, ordinal)

    def depth_weights(self, state: State, ordinal: int) -> Any:
        return super().depth_weights(_apart(state)[0], ordinal)

    def _detail(self, first_half: Tensor, whole: Tensor) -> Tensor:
        if self.config.detail == "duplicate":
            return whole
        difference = 2 * first_half - whole
        epsilon = self.geometry.norm_epsilon
        squares = [x.detach().square().mean(-1, keepdim=True) + epsilon for x in (whole, difference)]
        return difference * (squares[0] / squares[1]).sqrt()

    def _place(self, ordinal: int) -> tuple[int, int, int]:
        """(position in its block from 0, the block's size, the block's number from 1)."""
        starts = (0, *accumulate(self.block_sizes))
        number = max(each for each, start in enumerate(starts[:-1]) if start <= ordinal)
        return ordinal - starts[number], self.block_sizes[number], number + 1

    def _half_is_kept(self, ordinal: int) -> bool:
        if ordinal == self.geometry.num_sublayers:
            return False
        position, size, _ = self._place(ordinal)
        return 0 < size // 2 <= position

    def _names_by_site(self) -> tuple[tuple[str, ...], ...]:
        by_site = []
        for ordinal, names in enumerate(super()._names_by_site()):
            finished = {
                f"block {n + 1}": f"detail {n + 1}"
                for n, end in enumerate(accumulate(self.block_sizes))
                if end <= ordinal and self.block_sizes[n] > 1
            }
            with_details: list[str] = []
            for name in names:
                detail = finished.get(name.removeprefix("embedding + "))
                with_details += [detail, name] if detail else [name]
            by_site.append(tuple(with_details))
        return tuple(by_site)


def _apart(state: State) -> tuple[State, State]:
    """The pairs, and the first half where one is kept."""
    pairs = len(state) // 2 * 2
    return state[:pairs], state[pairs:]
