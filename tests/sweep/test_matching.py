"""Matching against a transformer whose size is written out by hand, and the limits of every deviation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnres_cli.sweep.axes import Coordinates, grid
from attnres_cli.sweep.matching import SMALLEST_HEAD_SIZE, Impossible, Limits, Match, match_cells
from attnres_cli.sweep.polynomial import Measure, Polynomial
from attnres_cli.sweep.shapes import Family, Shape

LIMITS = Limits()
SMALL = Shape(transformer_blocks=8, d_model=64, num_heads=4, num_kv_heads=4, head_dim=16, d_ff=176)
# The paper's own sweep: d_ff / d_model about 0.45.
LARGE = Shape(transformer_blocks=16, d_model=1024, num_heads=16, num_kv_heads=16, head_dim=64, d_ff=460)
GROUPED = Shape(transformer_blocks=12, d_model=768, num_heads=12, num_kv_heads=4, head_dim=64, d_ff=2048)
WIDE_HEADS = Shape(transformer_blocks=6, d_model=96, num_heads=4, num_kv_heads=4, head_dim=48, d_ff=256)
FAMILIES = [SMALL, LARGE, GROUPED, WIDE_HEADS]


def parameters(shape: Shape) -> float:
    """Attention, gated feed-forward, two norms per block, one at the end."""
    queries, keys = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    block = shape.d_model * (2 * queries + 2 * keys + 3 * shape.d_ff + 2)
    return shape.transformer_blocks * block + shape.d_model


def flops(shape: Shape, context: int = 256, vocabulary: int = 4096) -> float:
    queries, keys = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    matrices = shape.transformer_blocks * shape.d_model * (2 * queries + 2 * keys + 3 * shape.d_ff)
    return 6 * (matrices + vocabulary * shape.d_model) + 6 * shape.transformer_blocks * queries * context


def matched(
    reference: Shape, ratios: list[float], head_ratios: list[float] | None = None, measure: Measure = parameters
) -> tuple[list[Match], list[Impossible]]:
    return match_cells(
        grid(ratios, head_ratios or []),
        family=Family.of(reference),
        reference=reference,
        measure=measure,
        target=measure(reference),
    )


def within(quotient: float, limit: float) -> bool:
    return 1 / limit <= quotient <= limit


def assert_inside_the_limits(match: Match, reference: Shape, measure: Measure) -> None:
    shape, family = match.shape, Family.of(reference)
    assert match.pinned == measure(shape)
    assert within(match.pinned / measure(reference), LIMITS.pinned)
    assert within(shape.ratio / match.coordinates.ratio, LIMITS.ratio)
    assert within(shape.d_ff / shape.d_model / family.d_ff_ratio, LIMITS.d_ff)
    assert shape.head_dim % 2 == 0
    assert shape.d_model % shape.num_heads == 0
    assert (shape.d_model // shape.num_heads) % 2 == 0
    assert shape.d_model // shape.num_heads >= SMALLEST_HEAD_SIZE
    assert shape.num_heads == shape.num_kv_heads * family.kv_group
    if match.coordinates.head_ratio is not None:
        assert within(shape.head_ratio / match.coordinates.head_ratio, LIMITS.head_ratio)


@pytest.mark.parametrize("reference", FAMILIES, ids=str)
@pytest.mark.parametrize("measure", [parameters, flops])
def test_the_reference_stands_for_its_own_ratio(reference: Shape, measure: Measure) -> None:
    found, impossible = matched(reference, [reference.ratio], measure=measure)
    assert [match.shape for match in found] == [reference]
    assert impossible == []


@pytest.mark.parametrize("reference", FAMILIES, ids=str)
@pytest.mark.parametrize("measure", [parameters, flops])
def test_every_match_is_inside_the_limits_and_no_two_are_one_shape(reference: Shape, measure: Measure) -> None:
    found, impossible = matched(reference, [4, 8, 15, 30, 45, 60, 75], measure=measure)
    assert len(found) + len(impossible) == 7
    for match in found:
        assert_inside_the_limits(match, reference, measure)
    assert len({match.shape for match in found}) == len(found)


def test_the_papers_grid_is_possible_and_tight() -> None:
    found, impossible = matched(LARGE, [15, 30, 45, 60, 75], [0.3, 0.4, 0.5, 0.6, 0.7])
    assert impossible == []
    for match in found:
        assert_inside_the_limits(match, LARGE, parameters)
        assert abs(match.pinned / parameters(LARGE) - 1) < 0.005


def test_deeper_where_the_ratio_is_smaller() -> None:
    found, _ = matched(SMALL, [2, 4, 8, 16, 32])
    depths = [match.shape.transformer_blocks for match in found]
    assert depths == sorted(depths, reverse=True)
    assert len(set(depths)) == 5


@settings(max_examples=15)
@given(
    depth=st.integers(2, 40),
    heads=st.integers(1, 12),
    head_size=st.sampled_from([8, 16, 32, 64]),
    ratio=st.floats(1.5, 200),
    d_ff_ratio=st.floats(0.4, 4),
)
def test_any_family_and_ratio_gives_a_good_shape_or_a_reason(
    depth: int, heads: int, head_size: int, ratio: float, d_ff_ratio: float
) -> None:
    d_model = heads * head_size
    reference = Shape(depth, d_model, heads, heads, head_size, max(4, round(d_ff_ratio * d_model)))
    found, impossible = matched(reference, [ratio])
    for match in found:
        assert_inside_the_limits(match, reference, parameters)
    for cell in impossible:
        assert "L_b" in cell.reason
    assert len(found) + len(impossible) == 1


def test_impossible_cells_say_why_with_numbers() -> None:
    _, impossible = matched(SMALL, [128, 100_000])
    assert [cell.coordinates.ratio for cell in impossible] == [128, 100_000]
    assert "instead of 128 (+38%, limit 20%)" in impossible[0].reason
    assert "less than one transformer block" in impossible[1].reason


@pytest.mark.parametrize("reference", FAMILIES, ids=str)
@pytest.mark.parametrize("measure", [parameters, flops])
def test_ratios_out_of_all_reason_are_answered_without_a_search(reference: Shape, measure: Measure) -> None:
    """A billion channels at one block, or ten million blocks: nobody lives to see every shape tried."""
    found, impossible = matched(reference, [1e-300, 1e-9, reference.ratio, 1e9, 1e300], measure=measure)
    assert [match.shape for match in found] == [reference]
    assert [cell.coordinates.ratio for cell in impossible] == [1e-300, 1e-9, 1e9, 1e300]
    assert all("channels needed" in cell.reason for cell in impossible[:2])
    assert all(cell.reason.endswith("less than one transformer block") for cell in impossible[2:])
    found, impossible = matched(reference, [reference.ratio], [1e-9, reference.head_ratio, 1e9], measure)
    assert [match.shape for match in found] == [reference]
    assert "needed" in impossible[0].reason
    assert "a head needs an even size" in impossible[1].reason


def test_what_is_out_of_reach_is_nothing_that_the_limits_allow() -> None:
    """At the very smallest models a head of four channels, one head, one block are shapes like any other."""
    for blocks, heads in [(1, 1), (2, 1), (64, 1), (300, 2)]:
        smallest = Shape(blocks, heads * SMALLEST_HEAD_SIZE, heads, heads, SMALLEST_HEAD_SIZE, 12)
        for head_ratios in ([], [smallest.head_ratio]):
            found, impossible = matched(smallest, [smallest.ratio], head_ratios)
            assert ([match.shape for match in found], impossible) == ([smallest], [])


def test_head_sizes_and_head_counts_that_cannot_be_are_named() -> None:
    _, impossible = matched(SMALL, [4], [2])
    assert "heads of 2; a head needs an even size of at least 4" in impossible[0].reason
    _, impossible = matched(GROUPED, [60], [0.05])
    assert "at least 3 heads needed" in impossible[0].reason


def test_neighbours_do_not_share_a_shape() -> None:
    """17 blocks have 10, 11 or 12 heads for both 0.6 and 0.7: the two cells must not get the same number."""
    found, _ = matched(LARGE, [60], [0.6, 0.7])
    assert [match.coordinates.head_ratio for match in found] == [0.6, 0.7]
    assert found[0].shape.num_heads < found[1].shape.num_heads


def test_ratios_too_close_to_tell_apart_leave_an_impossible_cell() -> None:
    ratios = [30, 30.5, 31, 31.5, 32, 32.5, 33, 33.5, 34]
    found, impossible = matched(SMALL, ratios)
    assert len({match.shape for match in found}) == len(found)
    assert len(found) + len(impossible) == len(ratios)
    assert all("neighbouring cell" in cell.reason for cell in impossible)


@pytest.mark.parametrize("reference", FAMILIES, ids=str)
@pytest.mark.parametrize("measure", [parameters, flops])
def test_the_polynomial_is_exact_where_the_size_is_one(reference: Shape, measure: Measure) -> None:
    family = Family.of(reference)
    estimate = Polynomial.through(measure, family, reference)
    for depth, heads, d_ff in [(1, 12, 40), (33, 24, 1000), (7, 12, 222)]:
        d_model = heads * round(family.d_model_per_head)
        shape = family.shape(depth, heads, d_model, d_ff)
        assert math.isclose(estimate(depth, d_model, d_ff), measure(shape), rel_tol=1e-9)


def test_bisection_finds_the_real_valued_depth() -> None:
    estimate = Polynomial.through(parameters, Family.of(SMALL), SMALL)
    assert math.isclose(estimate.depth_for(SMALL.ratio, 2.75, parameters(SMALL)), 8, rel_tol=1e-9)


def test_coordinates_order_the_result() -> None:
    found, _ = matched(SMALL, [16, 8], [0.5, 1])
    assert [match.coordinates for match in found] == [
        Coordinates(8, 0.5),
        Coordinates(16, 0.5),
        Coordinates(8, 1),
        Coordinates(16, 1),
    ]
