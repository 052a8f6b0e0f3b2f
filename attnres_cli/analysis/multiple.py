"""Several arms against one baseline: the more of them are tested, the likelier one of them looks different by chance.

Holm's step-down correction (Scandinavian Journal of Statistics 6, 1979) holds the probability of any false "shown"
among all of them at alpha, whatever the dependence of the tests, and is never weaker than Bonferroni's.
"""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in the given order: below alpha means shown among all of them at alpha."""
    if not all(0.0 <= p <= 1.0 for p in p_values):
        raise ValueError("every p-value lies between 0 and 1")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)
