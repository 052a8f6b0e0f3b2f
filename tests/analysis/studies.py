"""Simulated studies: losses of many studies at once, with what a seed brings to both arms of a pair."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SEED_SPREAD = 0.03  # nats between seeds, shared by the arms of a pair
OWN_SPREAD = 0.004  # nats that only one run of a pair has


def paired_losses(studies: int, n: int, effect: float, *, seed: int) -> tuple[Array, Array]:
    """(ours, theirs), each [studies, n] nats; the true mean difference is `effect`."""
    generator = np.random.default_rng(seed)
    shared = 3.0 + SEED_SPREAD * generator.standard_normal((studies, n))
    own = OWN_SPREAD * generator.standard_normal((2, studies, n))
    return shared + own[0] + effect, shared + own[1]


DIFFERENCE_SPREAD = OWN_SPREAD * 2**0.5  # standard deviation of a pair's difference
