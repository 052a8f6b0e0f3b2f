"""Random numbers that are the same for ever: splitmix64, addressed by position instead of by turn.

Number `i` of a stream depends on the stream's name and on `i` alone, so that any part can be drawn at any time, in any
order, on any platform, with any version of numpy. Library generators promise none of that across versions.

The mixing function is Sebastiano Vigna's splitmix64 (https://prng.di.unimi.it/splitmix64.c, public domain).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_INCREMENT = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_MASK = 0xFFFFFFFFFFFFFFFF


def random_uint64(stream: tuple[int, ...], count: int, *, first: int = 0) -> npt.NDArray[np.uint64]:
    """Numbers `first` … `first + count − 1` of the stream that these integers name; uint64 [count], each uniform.

    `random_uint64((0,), 3)` are the first three outputs of splitmix64 seeded with 0.
    """
    state = _stream_state(stream)
    position = np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)
    return _mix(np.uint64(state) + position * np.uint64(_INCREMENT))


def random_below(limit: int, stream: tuple[int, ...], count: int, *, first: int = 0) -> npt.NDArray[np.int64]:
    """`count` integers in [0, limit), limit ≤ 2³¹; int64 [count]. Off from uniform by less than limit / 2³²."""
    assert 0 < limit <= 2**31, limit
    top_bits = random_uint64(stream, count, first=first) >> np.uint64(32)
    return ((top_bits * np.uint64(limit)) >> np.uint64(32)).astype(np.int64)


def random_permutation(stream: tuple[int, ...], count: int) -> npt.NDArray[np.int64]:
    """A permutation of 0 … count − 1, every one equally likely; int64 [count].

    It sorts random keys: n log n, but plainly a permutation, and a tie (one in 2⁶⁴ / n²) keeps its order everywhere.
    """
    return np.argsort(random_uint64(stream, count), kind="stable").astype(np.int64)


def _stream_state(stream: tuple[int, ...]) -> int:
    """One 64-bit state out of several integers; a stream of one integer is seeded with that integer itself.

    Mixed before and after each integer: states that differ by a multiple of the increment are the same stream, shifted.
    """
    state = stream[0] & _MASK
    for number in stream[1:]:
        state = _mix_one(_mix_one(state) ^ (number & _MASK))
    return state


def _mix_one(state: int) -> int:
    return int(_mix(np.array([(state + _INCREMENT) & _MASK], dtype=np.uint64))[0])


def _mix(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(_MULTIPLIERS[0])
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(_MULTIPLIERS[1])
    return bits ^ (bits >> np.uint64(31))
