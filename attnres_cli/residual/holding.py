"""Gates held: what a scheme computes from its state to weigh its state with, taken as given numbers.

Most schemes are linear in what is written to them, once their gates, depth weights and norms' scales are known. With
these held, a gradient of what a sublayer reads with respect to what an earlier one wrote is the weight of that output
in it: the entry of the depth-mixing matrix M (§6.2). A scheme passes every gate through `held`, and RMSNorm its scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from torch import Tensor

Gate = TypeVar("Gate", Tensor, Tensor | None)

_HELD = False


@contextmanager
def gates_held() -> Iterator[None]:
    """While the body runs, no gradient goes through gates. Values are what they always are."""
    global _HELD
    before, _HELD = _HELD, True
    try:
        yield
    finally:
        _HELD = before


def are_held() -> bool:
    return _HELD


def held(gate: Gate) -> Gate:
    """The gate, out of the graph while gates are held."""
    return gate.detach() if _HELD and gate is not None else gate
