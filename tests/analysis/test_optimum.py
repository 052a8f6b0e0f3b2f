"""The smooth optimum of a row: exact parabolas, edges, missing runs, and the coverage of both intervals."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from attnres_cli.analysis.optimum import RowOptimum, optimum_shift, row_optimum

RATIOS = [15.0, 30.0, 45.0, 60.0, 75.0]


def curve(ratio: float, best: float, bend: float = 0.08) -> float:
    return 1.85 + bend * (math.log(ratio) - math.log(best)) ** 2


def study(
    generator: np.random.Generator, seeds: int, *bests: float, spread: float = 0.003
) -> tuple[list[list[float]], ...]:
    """Rows of arms, per cell the losses of the seeds: what a seed does to a cell it does to every arm's."""
    shared = 0.01 * generator.standard_normal((len(RATIOS), seeds)) + 0.03 * generator.standard_normal(seeds)
    return tuple(
        (
            np.array([curve(ratio, best) for ratio in RATIOS])[:, None]
            + shared
            + spread * generator.standard_normal((len(RATIOS), seeds))
        ).tolist()
        for best in bests
    )


@pytest.mark.parametrize("best", [16.0, 41.5, 60.0, 74.0])
def test_an_exact_parabola_gives_its_minimum(best: float) -> None:
    found = row_optimum(RATIOS, [[curve(ratio, best)] for ratio in RATIOS])
    assert found.ratio == pytest.approx(best, rel=1e-9)
    assert found.loss == pytest.approx(1.85, abs=1e-12)
    assert (found.edge, found.low, found.high, found.seeds) == (None, None, None, 1)


def test_it_is_a_least_squares_parabola_with_every_run_counting_once() -> None:
    """A cell with three runs draws the curve three times as hard as one with a single run."""
    losses = [[2.0, 2.1, 2.05], [1.9, math.nan, math.nan], [1.85, 1.87, math.nan], [1.9, 1.93, 1.88], [1.97, 1.95, 2.0]]
    pairs = [(math.log(r), each) for r, cell in zip(RATIOS, losses, strict=True) for each in cell if each == each]
    bend, slope, constant = np.polyfit([x for x, _ in pairs], [y for _, y in pairs], 2)
    found = row_optimum(RATIOS, losses)
    assert found.ratio == pytest.approx(math.exp(-slope / (2 * bend)), rel=1e-6)
    assert found.loss == pytest.approx(constant - slope**2 / (4 * bend), abs=1e-8)
    assert found.seeds == 1  # only the first has a run in every cell


def test_the_papers_rows() -> None:
    """Fig. 7, H / L_b = 0.3: the optimum moves to narrower, deeper models."""
    baseline = row_optimum(RATIOS, [[1.926], [1.857], [1.851], [1.847], [1.858]])
    attnres = row_optimum(RATIOS, [[1.877], [1.816], [1.802], [1.806], [1.820]])
    assert baseline.ratio is not None
    assert attnres.ratio is not None
    assert attnres.ratio < baseline.ratio < 75.0


@pytest.mark.parametrize(("best", "edge"), [(10.0, "lowest"), (120.0, "highest")])
def test_a_minimum_outside_the_grid_is_an_edge(best: float, edge: str) -> None:
    (row,) = study(np.random.default_rng(0), 5, best, spread=0.0005)
    found = row_optimum(RATIOS, row)
    assert (found.ratio, found.edge) == (None, edge)
    assert all(math.isnan(each) for each in found.displacements)


def test_a_curve_that_bends_downwards_has_no_minimum() -> None:
    found = row_optimum(RATIOS, [[curve(ratio, 30.0, bend=-0.08) + 0.001 * s for s in (0, 1, 3)] for ratio in RATIOS])
    assert (found.ratio, found.edge, found.low, found.high) == (None, "highest", None, None)


@functools.cache
def equal_optima(seeds: int) -> list[tuple[RowOptimum, RowOptimum]]:
    """1200 studies of two arms whose optimum is the same."""
    generator = np.random.default_rng(seeds)
    studies = (study(generator, seeds, 40.0, 40.0) for _ in range(1200))
    return [(row_optimum(RATIOS, ours), row_optimum(RATIOS, theirs)) for ours, theirs in studies]


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_intervals_cover_the_truth(seeds: int) -> None:
    hits = [(found.low or 0.0) <= 40.0 <= (found.high or math.inf) for found, _ in equal_optima(seeds)]
    assert 0.93 <= np.mean(hits) <= 0.97


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_optima_that_do_not_differ_are_rarely_told_apart(seeds: int) -> None:
    shown, asked = 0, 0
    for pair in equal_optima(seeds):
        found = optimum_shift(*pair)
        if found is not None:
            asked += 1
            shown += found.p < 0.05
    assert asked > 1100
    assert shown / asked <= 0.06


def test_a_real_shift_is_seen_through_what_seeds_share() -> None:
    rows = study(np.random.default_rng(2), 5, 38.0, 46.0)
    ours, theirs = (row_optimum(RATIOS, row) for row in rows)
    found = optimum_shift(ours, theirs)
    assert found is not None
    assert found.mean == pytest.approx(math.log(ours.ratio / theirs.ratio), abs=0.05)  # type: ignore[operator]
    assert found.high < 0
    # Paired with other seeds, what is shared does not cancel.
    shuffled = optimum_shift(ours, row_optimum(RATIOS, [cell[1:] + cell[:1] for cell in rows[1]]))
    assert shuffled is not None
    assert shuffled.standard_deviation > 2 * found.standard_deviation


def test_a_seed_is_displaced_the_way_its_own_optimum_lies() -> None:
    """Two parabolas of one bend at 36 and 49: together they are lowest at 42, half way in log ratio."""
    found = row_optimum(RATIOS, [[curve(ratio, 36.0), curve(ratio, 49.0)] for ratio in RATIOS])
    assert found.ratio == pytest.approx(42.0, rel=1e-9)
    assert found.displacements == pytest.approx((math.log(36 / 42), math.log(49 / 42)), abs=1e-9)


def test_seeds_without_spread_give_a_point_and_a_beyond_is_shown() -> None:
    point = row_optimum(RATIOS, [[curve(ratio, 40.0)] * 3 for ratio in RATIOS])
    assert point.low == pytest.approx(40.0, rel=1e-3)
    assert point.high == pytest.approx(40.0, rel=1e-3)
    beyond = row_optimum(RATIOS, [[curve(ratio, 120.0)] * 3 for ratio in RATIOS])
    assert (beyond.low, beyond.high) == (pytest.approx(75.0), None)


def test_neighbours_are_excluded_or_not() -> None:
    (row,) = study(np.random.default_rng(4), 6, 45.0, spread=0.001)
    found = row_optimum(RATIOS, row)
    assert found.low is not None
    assert found.high is not None
    assert [found.excludes(ratio) for ratio in RATIOS] == [ratio < found.low or ratio > found.high for ratio in RATIOS]
    assert found.excludes(15.0)
    assert not found.excludes(found.ratio or 0.0)
    assert not row_optimum(RATIOS, [[each[0]] for each in row]).excludes(15.0)  # one seed shows nothing


def test_order_of_cells_and_a_cell_that_failed() -> None:
    (row,) = study(np.random.default_rng(4), 3, 45.0)
    turned = row_optimum(RATIOS[::-1], row[::-1])
    assert turned.ratio == pytest.approx(row_optimum(RATIOS, row).ratio, rel=1e-9)
    failed = row_optimum(RATIOS, [*row[:4], [math.nan] * 3])
    assert failed.ratio == pytest.approx(row_optimum(RATIOS[:4], row[:4]).ratio, rel=1e-9)
    assert failed.seeds == 3


def test_no_shift_without_two_optima_or_two_seeds() -> None:
    (row,) = study(np.random.default_rng(4), 3, 45.0)
    inside = row_optimum(RATIOS, row)
    assert optimum_shift(inside, row_optimum(RATIOS, [[curve(ratio, 120.0)] * 3 for ratio in RATIOS])) is None
    other = [[cell[0], math.nan, math.nan] for cell in row]
    assert optimum_shift(inside, row_optimum(RATIOS, other)) is None


def test_what_is_no_row_is_refused() -> None:
    with pytest.raises(ValueError, match="4 cells"):
        row_optimum(RATIOS[:3], [[2.0], [1.9], [2.0]])
    with pytest.raises(ValueError, match="every cell"):
        row_optimum(RATIOS, [[2.0], [1.9], [2.0], [2.0, 2.1], [2.0]])
    with pytest.raises(ValueError, match="ratio is"):
        row_optimum([0.0, *RATIOS[1:]], [[2.0]] * 5)
