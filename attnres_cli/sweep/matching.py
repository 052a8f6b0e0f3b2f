"""Which integer shape stands for a cell: an exhaustive search for the one that keeps the pinned quantity.

Parameters or FLOPs per token are pinned to the preset's own. Depth, heads, even head size and d_ff are integers, so
nothing fits exactly; the search takes the shape with the smallest sum of squared deviations, each in units of its
tolerance:

    pinned quantity 0.5 %    asked d_model/L_b 5 %    d_ff / d_model 5 %    head size 25 % (or asked heads/L_b 10 %)

d_ff is derived: it takes whatever value brings the pinned quantity closest, because d_ff / d_model is the flattest
direction of the loss (the paper's own grid holds it only to "about 0.45"). A cell is impossible when no shape stays
inside the limits.

Counting a real model for each of thousands of candidates would take minutes: a polynomial proposes (polynomial.py), and
real counts of the best few decide.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from attnres_cli.sweep.axes import Coordinates
from attnres_cli.sweep.polynomial import Measure, Polynomial
from attnres_cli.sweep.shapes import Family, Shape

# How far each deviation may go in units that the search treats as equally bad, as natural logarithms of the ratio.
TOLERANCE_PINNED = math.log(1.005)
TOLERANCE_RATIO = math.log(1.05)
TOLERANCE_D_FF = math.log(1.05)
TOLERANCE_HEAD_SIZE = math.log(1.25)
TOLERANCE_HEAD_RATIO = math.log(1.10)
# Tensor cores and flash attention want head sizes in eights; worth giving up a few per cent of the ratio for.
COST_OF_A_ROUGH_HEAD_SIZE = 0.5
SMALLEST_HEAD_SIZE = 4
# Of the continuous solution, in transformer blocks: below it even one block is off by more than any limit.
SMALLEST_DEPTH = 0.5
CANDIDATES_COUNTED = 4


@dataclass(frozen=True)
class Limits:
    """The largest deviations a cell may have, as factors (1.2: up to 20 % more or 17 % less)."""

    pinned: float = 1.02
    ratio: float = 1.20
    d_ff: float = 1.25
    head_size: float = 2.0
    head_ratio: float = 1.25


# Only for saying how far off the nearest shape is.
WIDE_LIMITS = Limits(pinned=4.0, ratio=3.0, d_ff=2.5, head_size=4.0, head_ratio=4.0)


@dataclass(frozen=True)
class Match:
    """The shape that stands for a cell. pinned: its real count of the pinned quantity."""

    coordinates: Coordinates
    shape: Shape
    pinned: float


@dataclass(frozen=True)
class Impossible:
    """A cell that no shape can stand for. reason: a sentence with the numbers."""

    coordinates: Coordinates
    reason: str


def match_cells(
    cells: Sequence[Coordinates],
    *,
    family: Family,
    reference: Shape,
    measure: Measure,
    target: float,
    limits: Limits = Limits(),
) -> tuple[list[Match], list[Impossible]]:
    """A shape for every cell, or the reason why there is none.

    measure: the pinned quantity of a real model; target: its value to hold. No two cells share a shape: it goes to the
    coordinates it is closer to, and the other cell takes its next best.
    """
    estimate = Polynomial.through(measure, family, reference)
    search = _Search(family, reference, estimate, measure, target, limits)
    found: dict[Coordinates, Match] = {}
    impossible: list[Impossible] = []
    waiting = list(cells)
    refused: dict[Coordinates, set[Shape]] = {coordinates: set() for coordinates in cells}
    while waiting:
        coordinates = waiting.pop(0)
        result = search.match(coordinates, refused[coordinates])
        if isinstance(result, Impossible):
            impossible.append(result)
            continue
        twin = next((other for other in found.values() if other.shape == result.shape), None)
        if twin is not None:
            keep, yielding = sorted((twin, result), key=lambda match: _asked_deviation(match.shape, match.coordinates))
            found.pop(twin.coordinates)
            refused[yielding.coordinates].add(yielding.shape)
            waiting.append(yielding.coordinates)
            result = keep
        found[result.coordinates] = result
    return [found[each] for each in cells if each in found], sorted(
        impossible, key=lambda cell: cells.index(cell.coordinates)
    )


@dataclass(frozen=True)
class _Search:
    """The search for one cell's shape, with what it holds fixed."""

    family: Family
    reference: Shape
    estimate: Polynomial
    measure: Measure
    target: float
    limits: Limits

    def match(self, coordinates: Coordinates, refused: Collection[Shape]) -> Match | Impossible:
        """The best shape that is not `refused`, by real counts."""
        if self.is_out_of_reach(coordinates):
            return Impossible(coordinates, self.why_impossible(coordinates))
        proposals = sorted(
            (each for each in self.proposals(coordinates) if each.shape not in refused), key=lambda each: each.score
        )
        counted = [
            _scored(each.shape, coordinates, self.family, self.measure(each.shape), self.target)
            for each in proposals[:CANDIDATES_COUNTED]
        ]
        fitting = [each for each in counted if _within(each.pinned / self.target, self.limits.pinned)]
        if fitting:
            best = min(fitting, key=lambda candidate: candidate.score)
            return Match(coordinates, best.shape, best.pinned)
        if refused:
            return Impossible(
                coordinates, f"its nearest shape, {min(refused, key=str)}, is that of a neighbouring cell already"
            )
        return Impossible(coordinates, self.why_impossible(coordinates))

    def proposals(self, coordinates: Coordinates) -> Iterator[_Candidate]:
        """Every shape inside the limits by estimate, and the preset's own, whose d_ff need not be a round number."""
        yield from _candidates(coordinates, self.family, self.estimate, self.target, self.limits)
        own, limits = self.reference, self.limits
        heads_fit = coordinates.head_ratio is None or _within(
            own.head_ratio / coordinates.head_ratio, limits.head_ratio
        )
        if heads_fit and _within(own.ratio / coordinates.ratio, limits.ratio):
            yield _scored(own, coordinates, self.family, self.target, self.target)

    def is_out_of_reach(self, coordinates: Coordinates) -> bool:
        """Whether the matched size means less than a transformer block, or than a head, however far the limits stretch
        it: no whole shape can be near. The search would try millions of widths or depths for nothing."""
        family, limits = self.family, self.limits
        depth = self.estimate.depth_for(coordinates.ratio, family.d_ff_ratio, self.target)
        deepest = depth * limits.ratio * limits.d_ff
        if depth < SMALLEST_DEPTH:
            return True
        if coordinates.head_ratio is None:
            return coordinates.ratio * limits.ratio * deepest < SMALLEST_HEAD_SIZE * family.kv_group
        largest_head = coordinates.ratio * limits.ratio / (coordinates.head_ratio / limits.head_ratio)
        most_heads = coordinates.head_ratio * limits.head_ratio * deepest
        return largest_head < SMALLEST_HEAD_SIZE or most_heads < family.kv_group

    def why_impossible(self, coordinates: Coordinates) -> str:
        """A sentence with numbers: what the cell would have to be, and what is wrong with the nearest whole shape."""
        family, limits = self.family, self.limits
        depth = self.estimate.depth_for(coordinates.ratio, family.d_ff_ratio, self.target)
        width = coordinates.ratio * depth
        ideal = f"the matched size means L_b {depth:.3g} × d_model {width:.4g}"
        if depth < SMALLEST_DEPTH:
            return f"{ideal}: less than one transformer block"
        if coordinates.head_ratio is not None:
            heads, size = coordinates.head_ratio * depth, coordinates.ratio / coordinates.head_ratio
            ideal += f", {heads:.3g} heads of {size:.3g}"
            if size < SMALLEST_HEAD_SIZE * 0.9:
                return f"{ideal}; a head needs an even size of at least {SMALLEST_HEAD_SIZE}"
            if heads < 0.5 * family.kv_group:
                return f"{ideal}; at least {_heads(family.kv_group)} needed"
        elif width < SMALLEST_HEAD_SIZE * family.kv_group:
            return f"{ideal}; {_heads(family.kv_group)} of at least {SMALLEST_HEAD_SIZE} channels needed"
        candidates = _candidates(coordinates, family, self.estimate, self.target, WIDE_LIMITS)
        nearest = min(candidates, key=lambda candidate: candidate.score, default=None)
        if nearest is None:
            return f"{ideal}; no whole shape comes near it"
        shape = nearest.shape
        checks = [
            ("d_model/L_b", shape.ratio, coordinates.ratio, limits.ratio),
            ("d_ff/d_model", shape.d_ff / shape.d_model, family.d_ff_ratio, limits.d_ff),
            ("the pinned quantity", self.measure(shape), self.target, limits.pinned),
            ("head size", shape.d_model / shape.num_heads, family.d_model_per_head, limits.head_size)
            if coordinates.head_ratio is None
            else ("heads/L_b", shape.head_ratio, coordinates.head_ratio, limits.head_ratio),
        ]
        faults = [_fault(*check) for check in checks if not _within(check[1] / check[2], check[3])]
        return f"{ideal}; the nearest whole shape, {shape}, is off: {', '.join(faults) or 'a real count differs'}"


def _within(quotient: float, limit: float) -> bool:
    return 1 / limit <= quotient <= limit


def _heads(count: int) -> str:
    return f"{count} head{'s' if count > 1 else ''}"


def _fault(what: str, found: float, wanted: float, limit: float) -> str:
    """`d_model/L_b 35.3 instead of 28 (+26 %, limit 20 %)`."""
    bound = limit - 1 if found > wanted else 1 - 1 / limit
    return f"{what} {found:.4g} instead of {wanted:.4g} ({found / wanted - 1:+.0%}, limit {bound:.0%})"


@dataclass(frozen=True)
class _Candidate:
    shape: Shape
    pinned: float
    score: float


def _candidates(
    coordinates: Coordinates, family: Family, estimate: Polynomial, target: float, limits: Limits
) -> Iterator[_Candidate]:
    """Every shape inside the limits, by the polynomial's estimate; `pinned` and `score` are estimates, too."""
    ideal_depth = estimate.depth_for(coordinates.ratio, family.d_ff_ratio, target)
    # With the ratio and d_ff at their limits, depth moves by no more than about their product.
    reach = limits.ratio * limits.d_ff
    for depth in range(max(1, math.floor(ideal_depth / reach)), math.ceil(ideal_depth * reach) + 1):
        for num_heads, d_model in _widths(coordinates, family, depth, limits):
            if not _within(d_model / depth / coordinates.ratio, limits.ratio):
                continue
            step = 8 if d_model >= 256 else 4
            exact_d_ff = estimate.d_ff_for(depth, d_model, target)
            if not math.isfinite(exact_d_ff):
                continue
            d_ff = step * round(exact_d_ff / step)
            if d_ff < step or not _within(d_ff / d_model / family.d_ff_ratio, limits.d_ff):
                continue
            shape = family.shape(depth, num_heads, d_model, d_ff)
            pinned = estimate(depth, d_model, d_ff)
            if pinned > 0 and _within(pinned / target, limits.pinned):
                yield _scored(shape, coordinates, family, pinned, target)


def _widths(coordinates: Coordinates, family: Family, depth: int, limits: Limits) -> Iterator[tuple[int, int]]:
    """(heads, d_model = heads × even head size) that can stand at this depth."""
    ideal_width = coordinates.ratio * depth
    narrowest, widest = ideal_width / limits.ratio, ideal_width * limits.ratio
    group = family.kv_group
    if coordinates.head_ratio is None:
        smallest = max(SMALLEST_HEAD_SIZE, family.d_model_per_head / limits.head_size)
        for head_size in _even_numbers(smallest, family.d_model_per_head * limits.head_size):
            for groups in range(
                max(1, math.ceil(narrowest / (head_size * group))), math.floor(widest / (head_size * group)) + 1
            ):
                yield groups * group, groups * group * head_size
    else:
        asked_heads = coordinates.head_ratio * depth
        fewest, most = asked_heads / limits.head_ratio, asked_heads * limits.head_ratio
        for groups in range(max(1, math.ceil(fewest / group)), math.floor(most / group) + 1):
            num_heads = groups * group
            for head_size in _even_numbers(max(SMALLEST_HEAD_SIZE, narrowest / num_heads), widest / num_heads):
                yield num_heads, num_heads * head_size


def _even_numbers(low: float, high: float) -> range:
    return range(2 * math.ceil(low / 2), math.floor(high) + 1, 2)


def _scored(shape: Shape, coordinates: Coordinates, family: Family, pinned: float, target: float) -> _Candidate:
    size_per_head = shape.d_model / shape.num_heads
    terms = [
        math.log(pinned / target) / TOLERANCE_PINNED,
        math.log(shape.ratio / coordinates.ratio) / TOLERANCE_RATIO,
        math.log(shape.d_ff / shape.d_model / family.d_ff_ratio) / TOLERANCE_D_FF,
    ]
    if coordinates.head_ratio is None:
        terms.append(math.log(size_per_head / family.d_model_per_head) / TOLERANCE_HEAD_SIZE)
    else:
        terms.append(math.log(shape.head_ratio / coordinates.head_ratio) / TOLERANCE_HEAD_RATIO)
    rough = COST_OF_A_ROUGH_HEAD_SIZE if shape.head_dim % 8 else 0.0
    return _Candidate(shape, pinned, sum(term**2 for term in terms) + rough)


def _asked_deviation(shape: Shape, coordinates: Coordinates) -> float:
    head = 0.0 if coordinates.head_ratio is None else math.log(shape.head_ratio / coordinates.head_ratio)
    return abs(math.log(shape.ratio / coordinates.ratio)) + abs(head)
