"""The size of a transformer as a polynomial of its depth, width and d_ff, from seven real counts.

Within a family of shapes, parameters and FLOPs are polynomials with seven terms. Fitting the coefficients to counts of
real models instead of writing them down keeps this right when a model part changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from attnres_cli.sweep.shapes import Family, Shape

# Where the search for a depth gives up: a ratio that asks for more has no width.
DEEPEST = 1e12

Measure = Callable[[Shape], float]
"""A quantity of a real model of some shape."""


@dataclass(frozen=True)
class Polynomial:
    """The pinned quantity as a function of depth L, width d and d_ff f, from real counts: exact where it is one."""

    coefficients: tuple[float, ...]

    @classmethod
    def through(cls, measure: Measure, family: Family, reference: Shape) -> Polynomial:
        """The polynomial through seven real counts, as many as it has terms: five at the preset's depth, two deeper."""
        import numpy

        depth = reference.transformer_blocks
        deeper = depth + max(1, depth // 2)
        # (depth, heads in groups, d_ff in units of the family's): no column of the seven terms is a mix of the others.
        places = (
            (depth, 1, 1),
            (depth, 1, 2),
            (depth, 2, 1),
            (depth, 2, 2),
            (depth, 4, 1),
            (deeper, 1, 1),
            (deeper, 4, 1),
        )
        head_size = 2 * max(2, round(family.d_model_per_head / 2))
        samples = []
        for blocks, groups, d_ff_factor in places:
            heads = groups * family.kv_group
            d_model = heads * head_size
            samples.append(
                family.shape(blocks, heads, d_model, max(4, round(d_ff_factor * family.d_ff_ratio * d_model)))
            )
        terms = numpy.array(
            [_terms(each.transformer_blocks, each.d_model, each.d_ff) for each in samples], dtype=numpy.float64
        )
        values = numpy.array([measure(each) for each in samples], dtype=numpy.float64)
        scale = numpy.abs(terms).max(axis=0)
        solution = numpy.linalg.solve(terms / scale, values) / scale
        return cls(tuple(float(value) for value in solution))

    def __call__(self, depth: float, d_model: float, d_ff: float) -> float:
        return sum(factor * term for factor, term in zip(self.coefficients, _terms(depth, d_model, d_ff), strict=True))

    def d_ff_for(self, depth: float, d_model: float, target: float) -> float:
        """The d_ff at which depth × d_model reaches `target`; it may be negative."""
        without = self(depth, d_model, 0)
        per_channel = self(depth, d_model, 1) - without
        return (target - without) / per_channel if per_channel > 0 else math.nan

    def depth_for(self, ratio: float, d_ff_ratio: float, target: float) -> float:
        """The real-valued depth at which a shape of this ratio reaches `target`; 0 when every depth is above it."""
        low, high = 0.0, 1.0
        while self(high, ratio * high, d_ff_ratio * ratio * high) < target and high < DEEPEST:
            low, high = high, 2 * high
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (
                (middle, high) if self(middle, ratio * middle, d_ff_ratio * ratio * middle) < target else (low, middle)
            )
        return high


def _terms(depth: float, d_model: float, d_ff: float) -> tuple[float, ...]:
    squared = d_model * d_model  # a product too large is infinite, where a power would be an error
    return (1.0, d_model, depth, depth * d_model, depth * squared, depth * d_model * d_ff, depth * d_ff)
