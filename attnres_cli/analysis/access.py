"""Memory accesses of a residual connection, per token and sublayer: the paper's Table 1, and what it leaves unsaid.

Counted are the reads and writes of the residual path alone, in tensor elements; a sublayer's own traffic (weights, its
activations) is the same for every row and left out. Keys and values are read separately, as the paper counts them.
Every number is an exact fraction: a coefficient of d (the width) plus, for mHC, some scalars.

Symbols: L sublayers, N blocks of S = L / N sublayers each (for an uneven split S is the mean), m streams.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Accesses:
    """A number of elements: `per_channel` × d + `scalars`."""

    per_channel: Fraction = Fraction(0)
    scalars: Fraction = Fraction(0)

    def __add__(self, other: Accesses) -> Accesses:
        return Accesses(self.per_channel + other.per_channel, self.scalars + other.scalars)

    def elements(self, d_model: int) -> Fraction:
        """Elements per token and sublayer at width `d_model`."""
        return self.per_channel * d_model + self.scalars


@dataclass(frozen=True)
class Operation:
    """One pass over memory. The shapes are the paper's symbols for `read` and `write`."""

    name: str
    read: Accesses
    write: Accesses
    read_shape: str
    write_shape: str


@dataclass(frozen=True)
class AccessRow:
    """One way to connect layers. source: whose count it is, "Table 1" (the paper's) or "counted" (this project's)."""

    name: str
    operations: tuple[Operation, ...]
    total_shape: str
    source: str

    @property
    def read(self) -> Accesses:
        return sum((operation.read for operation in self.operations), Accesses())

    @property
    def write(self) -> Accesses:
        return sum((operation.write for operation in self.operations), Accesses())

    @property
    def total(self) -> Accesses:
        return self.read + self.write


def access_table(num_sublayers: int, num_blocks: int, num_streams: int = 4) -> tuple[AccessRow, ...]:
    """All rows for L = `num_sublayers`, N = `num_blocks` (1 ≤ N ≤ L) and m = `num_streams`."""
    assert 1 <= num_blocks <= num_sublayers, (num_blocks, num_sublayers)
    return (
        standard(),
        hyper_connections(num_streams),
        full(num_sublayers, num_blocks),
        full_naive(num_sublayers),
        block(num_sublayers, num_blocks),
        block_naive(num_sublayers, num_blocks),
    )


def standard() -> AccessRow:
    """The plain residual: read the stream and the sublayer's output, write their sum."""
    merge = Operation("residual merge", _channels(2), _channels(1), "2d", "d")
    return AccessRow("standard", (merge,), "3d", "Table 1")


def hyper_connections(num_streams: int) -> AccessRow:
    """Manifold-constrained hyper-connections (mHC) with m parallel streams."""
    m = num_streams
    operations = (
        Operation("compute α, β, A", _channels(m), _scalars(m * m + 2 * m), "md", "m²+2m"),
        Operation("apply α", Accesses(Fraction(m), Fraction(m)), _channels(1), "md+m", "d"),
        Operation("apply β", Accesses(Fraction(1), Fraction(m)), _channels(m), "d+m", "md"),
        Operation("apply A", Accesses(Fraction(m), Fraction(m * m)), _channels(m), "md+m²", "md"),
        Operation("residual merge", _channels(2 * m), _channels(m), "2md", "md"),
    )
    return AccessRow(f"mHC, {m} streams", operations, "(8m+2)d + 2m² + 4m", "Table 1")


def full(num_sublayers: int, num_blocks: int) -> AccessRow:
    """Full AttnRes in two phases: the queries of S sublayers read finished sources together; N is only a schedule."""
    sublayers, blocks = Fraction(num_sublayers, num_blocks), Fraction(num_blocks)
    operations = (
        Operation("phase 1, shared by a block", _channels(blocks - 1), _channels(1), "(N-1)d", "d"),
        Operation("phase 2, within the block", _channels(sublayers - 1), _channels(1), "(S-1)d", "d"),
    )
    return AccessRow("AttnRes full", operations, "(S+N)d", "Table 1")


def full_naive(num_sublayers: int) -> AccessRow:
    """Full AttnRes where every sublayer reads all its sources: sublayer l has l of them, (L + 1) / 2 on average."""
    mix = Operation("mix", _channels(num_sublayers + 1), _channels(1), "(L+1)d", "d")
    return AccessRow("AttnRes full, naive", (mix,), "(L+2)d", "counted")


def block(num_sublayers: int, num_blocks: int) -> AccessRow:
    """Block AttnRes in two phases: finished blocks are read once per block, then the running sum at every sublayer."""
    sublayers = Fraction(num_sublayers, num_blocks)
    operations = (
        Operation("phase 1, shared by a block", _channels(num_blocks / sublayers), _channels(1), "(N/S)d", "d"),
        Operation("phase 2, within the block", _channels(3), _channels(1), "3d", "d"),
    )
    return AccessRow("AttnRes block", operations, "(N/S+5)d", "Table 1")


def block_naive(num_sublayers: int, num_blocks: int) -> AccessRow:
    """Block AttnRes where every sublayer re-reads all finished blocks.

    Sublayer i of block n has n sources for i = 1 and n + 1 after that (Eq. 6); the first output of a block is its sum,
    so only the other S - 1 are added to one.
    """
    later = 1 - Fraction(num_blocks, num_sublayers)  # (S - 1) / S: the share of sublayers that see a running sum
    operations = (
        Operation("mix", _channels(num_blocks + 1 + 2 * later), _channels(1), "(N+1)d + 2(S-1)/S d", "d"),
        Operation("block sum", _channels(2 * later), _channels(later), "2(S-1)/S d", "(S-1)/S d"),
    )
    return AccessRow("AttnRes block, naive", operations, "(N+2)d + 5(S-1)/S d", "counted")


def _channels(coefficient: int | Fraction) -> Accesses:
    return Accesses(per_channel=Fraction(coefficient))


def _scalars(count: int) -> Accesses:
    return Accesses(scalars=Fraction(count))
