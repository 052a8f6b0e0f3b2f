"""What the residual path of a whole depth must move and compute, counted on the scheme's own state; none is named.

The path is walked on the meta device with sublayers that do nothing, one site (a sublayer with its PreNorm, and the
output with the final norm) after the other. The rule of the count, for one pass over M tokens of width d:

Forward. A site reads every source that was there before (the [M, d] tensors of the state). A source that is new since
the last site is a sublayer's output, read once; one that was replaced (the stream, a running block sum) costs its old
value, the output added to it, and the write of the new value. The site then writes its normalised mixture.

Backward. A site reads the gradient of what it gave and the value that its norm kept, and, where it mixes several
sources, writes the gradient of the mixture. Every source, once all that used it are done, costs its own value and one
gradient for each of those mixtures, the gradient of what replaced it, and the write of its own gradient.

So nothing stays in a cache between sites, and nothing is moved twice within one. Numbers per token (1/rms, logits) are
left out: they are 1/d of it. Sublayers' outputs and norms' results are in the dtype of the computation, sums and
gradients of mixtures in float32 at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnres_cli.analysis.kernels import real_kernels
from attnres_cli.analysis.shapes import QuickShapes
from attnres_cli.model.trunk import LanguageModel


@dataclass(frozen=True)
class Traffic:
    """Bytes and FLOPs of one pass over all sites; backward FLOPs are twice the forward ones."""

    forward_bytes: int
    backward_bytes: int
    forward_flops: float

    @property
    def bytes(self) -> int:
        return self.forward_bytes + self.backward_bytes

    @property
    def flops(self) -> float:
        return 3 * self.forward_flops


@dataclass
class _Source:
    """One [M, d] value of the state. bytes: of itself; mixtures: how many sites mixed it with others; replaced: whether
    a later value was made from it."""

    bytes: int
    mixtures: int = 0
    replaced: bool = False


def count_traffic(model: LanguageModel, tokens: int, dtype: torch.dtype) -> Traffic:
    """model: on the meta device. tokens: the M of the rule. dtype: of the sublayers' outputs."""
    width = model.config.d_model
    plain = tokens * width * dtype.itemsize
    wide = tokens * width * max(4, dtype.itemsize)
    sources: dict[int, _Source] = {}
    forward = backward = additions = 0
    before: list[Tensor] = []
    states = _values_at_sites(model)
    for values in states:
        born, gone = _without(values, before), _without(before, values)
        is_sum = bool(gone) or not before  # the embedding, too, is in the weights' dtype
        sources |= {id(value): _Source(wide if is_sum else plain) for value in born}
        forward += sum(sources[id(value)].bytes for value in values)
        if gone:
            forward += sum(sources[id(value)].bytes for value in gone) + plain
            additions += len(born)
        forward += plain
        backward += 2 * plain + (wide if len(values) > 1 else 0)
        for value in values if len(values) > 1 else ():
            sources[id(value)].mixtures += 1
        for value in gone:
            sources[id(value)].replaced = True
        before = values
    for source in sources.values():
        own = source.bytes if source.mixtures else 0
        backward += own + source.mixtures * wide + source.replaced * wide + source.bytes
    norms = 4 * width * len(states)
    flops = model.residual.cost().forward_flops_per_token + norms + additions * width
    return Traffic(forward, backward, tokens * flops)


@torch.no_grad()
def _values_at_sites(model: LanguageModel) -> list[list[Tensor]]:
    """The d-sized tensors of the state before every site, the output site last. All of them are alive together, so that
    no two share an identity."""
    assert model.embedding.weight.is_meta, "the walk needs no memory only on the meta device"
    width = model.config.d_model
    token = torch.empty(1, 1, width, device="meta")
    with QuickShapes(), real_kernels():  # type: ignore[no-untyped-call]
        states = [model.residual.open(token)]
        for site in model.sites():
            _, state = model.residual.read(states[-1], site)
            states.append(model.residual.write(state, site, token.clone()))
    return [[tensor for tensor in state if tensor.shape[-1:] == (width,)] for state in states]


def _without(tensors: Sequence[Tensor], others: Sequence[Tensor]) -> list[Tensor]:
    """Those of `tensors` that are not among `others`, by identity."""
    known = {id(tensor) for tensor in others}
    return [tensor for tensor in tensors if id(tensor) not in known]


def computed_dtype(precision: str) -> torch.dtype:
    """What sublayers compute in."""
    return torch.bfloat16 if precision == "bf16" else torch.float32
