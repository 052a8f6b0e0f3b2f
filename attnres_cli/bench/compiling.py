"""What torch.compile has done so far in this process, read from its own counters."""

from __future__ import annotations

import sys
from typing import NamedTuple


class Compiled(NamedTuple):
    """graphs: graphs compiled; breaks: places where tracing gave up and went on in Python."""

    graphs: int
    breaks: int

    def since(self, earlier: Compiled) -> Compiled:
        return Compiled(self.graphs - earlier.graphs, self.breaks - earlier.breaks)


def compiled_so_far() -> Compiled:
    if "torch._dynamo" not in sys.modules:  # importing it takes a second, and it has compiled nothing
        return Compiled(0, 0)
    from torch._dynamo.utils import counters

    return Compiled(counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()))


def forget_compiled() -> None:
    """Drop everything compiled. The compiler keeps few versions of one function and then goes on uncompiled, so that
    models of many shapes need this between them."""
    if "torch._dynamo" in sys.modules:
        import torch

        torch._dynamo.reset()
