"""What depth sources cost a pipeline-parallel run: block representations that cross from one device to the next.

P physical stages with V virtual stages each run the trunk as C = P·V chunks, chunk c on device c mod P. A plain
residual sends one hidden state per transition; AttnRes sends the finished block representations, too. Naively every
transition sends all of them; with the paper's cache a device keeps what it has received and gets only what is new.

Two counts: `communication` is the paper's average (Eq. 7–8), `transitions` walks the real block boundaries.
All in d-sized representations per token, forward pass (the backward pass sends as many gradients).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Communication:
    """Eq. 7 and 8, per token: representations of d elements sent in one forward pass, and by its largest transition."""

    physical_stages: int
    virtual_stages: int
    representations_per_chunk: Fraction
    naive: Fraction
    cached: Fraction
    naive_peak: Fraction
    cached_peak: Fraction


def communication(
    physical_stages: int, virtual_stages: int, representations_per_chunk: Fraction | int
) -> Communication:
    """Eq. 7–8 with P, V and N_p, the representations that one chunk finishes on average (N / C for N blocks).

    naive = C(C-1)/2 · N_p;  cached = P(P-1)/2 · N_p + (V-1)·P²·N_p.
    """
    stages, virtual, share = physical_stages, virtual_stages, Fraction(representations_per_chunk)
    assert min(stages, virtual) > 0
    assert share >= 0
    chunks = stages * virtual
    return Communication(
        physical_stages=stages,
        virtual_stages=virtual,
        representations_per_chunk=share,
        naive=Fraction(chunks * (chunks - 1), 2) * share,
        cached=(Fraction(stages * (stages - 1), 2) + (virtual - 1) * stages**2) * share,
        naive_peak=(chunks - 1) * share,
        cached_peak=(stages if virtual > 1 else stages - 1) * share,
    )


@dataclass(frozen=True)
class Transition:
    """From chunk `chunk` to the next one: finished representations (the embedding is one) sent by each method."""

    chunk: int
    naive: int
    cached: int


def transitions(physical_stages: int, chunk_sources: Sequence[int]) -> tuple[Transition, ...]:
    """Every transition of a run whose chunk c + 1 needs `chunk_sources[c]` finished representations.

    chunk_sources[c] counts them at the boundary behind chunk c, the embedding included, and never falls. A device holds
    what it received at its previous visit; the first device holds the embedding from the start.
    """
    assert list(chunk_sources) == sorted(chunk_sources), "finished representations cannot become fewer with depth"
    received = {0: min(1, chunk_sources[0])} if chunk_sources else {}
    result = []
    for chunk, sources in enumerate(chunk_sources):
        device = (chunk + 1) % physical_stages
        result.append(Transition(chunk, naive=sources, cached=sources - received.get(device, 0)))
        received[device] = sources
    return tuple(result)


def chunk_boundaries(transformer_blocks: int, chunks: int) -> tuple[int, ...]:
    """Sublayers finished behind each chunk but the last, for chunks of whole transformer blocks, as even as they go."""
    assert 0 < chunks <= transformer_blocks
    return tuple(2 * (transformer_blocks * (chunk + 1) // chunks) for chunk in range(chunks - 1))
