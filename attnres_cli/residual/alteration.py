"""What can be taken out of a trained model's walk through depth, or put elsewhere, to see what it was good for.

An altered scheme or model is a twin: the same parameters, another walk. Nothing of the original changes, and a twin is
for evaluation only; it never takes a fused pass, which knows nothing of alterations.

*A removed sublayer* is not computed, and writes nothing. Where outputs are sources of their own, its source is not
there, a sum of outputs lacks its term, and a sum of which nothing is left is no source either.

*A masked source* is left out of one site's choice. What turns logits into weights is given those of the rest: weights
that compete for a sum (softmax and its like) are shared out anew among them, and weights that stand each for itself
(sigmoids, plain numbers) stay what they were. A query that is made of the newest source is still made of it. A site
that would be left without any source keeps all that it has.

*Swapped transformer blocks* change places with all that belongs to them: their matrices, their norms, and the scheme's
own parameters of their sublayers (queries, gates, scales), as in studies that reorder layers. What the scheme does
*between* sublayers belongs to the place: where blocks of sources begin, tables and mixtures whose shape is that of what
came before. Own parameters that the two places do not both have, or not in the same shapes, stay.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from torch import nn

Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class Alteration:
    """removed: ordinals of sublayers that are not there. masked: (site, source) pairs, the site by its ordinal
    (num_sublayers: the output site), the source by its name in `Residual.depth_weights`. swapped: two transformer
    blocks."""

    removed: frozenset[int] = frozenset()
    masked: frozenset[tuple[int, str]] = frozenset()
    swapped: tuple[int, int] | None = None

    def taken(self, site: int, names: Sequence[str]) -> list[int]:
        """Which of the sources `names` of this site it may take; all of them, where none would be left."""
        left = [index for index, name in enumerate(names) if (site, name) not in self.masked]
        return left or [*range(len(names))]

    def block_at(self, layer: int) -> int:
        """The transformer block that stands at this place."""
        if self.swapped is None or layer not in self.swapped:
            return layer
        one, other = self.swapped
        return other if layer == one else one

    def first_difference(self, other: Alteration) -> int | None:
        """The first site at which the walk can differ from that of `other`; None: nowhere."""
        sites = {*(self.removed ^ other.removed), *(site for site, _ in self.masked ^ other.masked)}
        if self.swapped != other.swapped:
            sites |= {2 * layer for pair in (self.swapped, other.swapped) if pair is not None for layer in pair}
        return min(sites, default=None)


UNALTERED = Alteration()


def twin_of(module: Module) -> Module:
    """A copy that shares every part with `module`, but whose parts can be exchanged without touching it."""
    twin = copy.copy(module)
    twin.__dict__["_modules"] = dict(module._modules)
    return twin


def swap_entries(module: nn.Module, part: str, alteration: Alteration, transformer_blocks: int) -> None:
    """In a twin: `part` is a list with one entry per sublayer or per transformer block; those of the swapped blocks
    change places where both have the same parameters."""
    entries = module.get_submodule(part)
    assert isinstance(entries, nn.ModuleList), part
    each, rest = divmod(len(entries), transformer_blocks)
    assert not rest, f"{part}: {len(entries)} entries for {transformer_blocks} transformer blocks"
    chosen: list[nn.Module] = []
    for index, entry in enumerate(entries):
        other = entries[alteration.block_at(index // each) * each + index % each]
        chosen.append(other if _shapes(other) == _shapes(entry) else entry)
    setattr(module, part, type(entries)(chosen))


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
