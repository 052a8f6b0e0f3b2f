"""Pictures of sweep documents, against numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from attnres_cli.discovery import names
from attnres_cli.report.picture import Heat, Lines, Picture, Views, all_stills
from attnres_cli.report.pictures_of_sweeps import pictures_of_sweep
from attnres_cli.report.tables.sweep_laws import FLOPS_PER_PFLOP_S_DAY
from tests import fabricated_sweep
from tests.report.test_hops_report import ACCURACIES
from tests.report.test_hops_report import document as hops_document
from tests.report.test_pictures import check_still
from tests.report.test_tune_report import bowl, tune_document

# Student's t, 97.5 %, two degrees of freedom.
T2 = 4.302653
ONE_AXIS = {
    (None, 8.0): ([2.0, 2.1, 1.9], [1.8, 1.9, 1.71]),
    (None, 16.0): ([1.8, 1.9, 1.7], [1.7, 1.8, 1.61]),
    (None, 32.0): ([1.9, 2.0, 1.8], [1.91, 2.0, 1.79]),
}
TWO_AXES = {
    (heads, ratio): (2.0 + 0.01 * abs(ratio - 16) + heads / 10, 1.9 + 0.01 * abs(ratio - 8) + heads / 10)
    for heads in (0.5, 1.0)
    for ratio in (8.0, 16.0, 32.0)
}


def drawn(document: dict[str, Any]) -> dict[str, Picture]:
    found = pictures_of_sweep(document)
    for picture in found:
        for view in all_stills(picture):
            check_still(view)
    return {picture.key: picture for picture in found}


def lines(picture: object) -> Lines:
    assert isinstance(picture, Lines)
    return picture


def heat(picture: Picture) -> Heat:
    assert isinstance(picture, Heat)
    return picture


def test_a_grid_of_one_axis_has_the_schemes_as_rows_and_the_losses_as_curves() -> None:
    found = drawn(fabricated_sweep.sweep_document(ONE_AXIS))
    assert list(found) == ["shapes", "loss-grid", "difference-grid"]
    grid = heat(found["loss-grid"])
    assert (grid.rows, grid.columns) == (("plain", "mixing"), ("8", "16", "32"))
    assert grid.values[0] == pytest.approx((2.0, 1.8, 1.9))
    assert grid.marked == {(0, 1), (1, 1)}, "the lowest cell of each scheme"
    assert (grid.low, grid.high) == (pytest.approx(1.7033, abs=1e-4), pytest.approx(2.0))
    curve = lines(found["shapes"]).series[0]
    assert curve.x == (8, 16, 32)
    assert curve.low is not None
    assert curve.low[0] == pytest.approx(2.0 - T2 * 0.1 / math.sqrt(3), abs=1e-5)


def test_differences_have_a_scale_around_zero_and_marks_where_seeds_show_them() -> None:
    grid = heat(drawn(fabricated_sweep.sweep_document(ONE_AXIS))["difference-grid"])
    assert grid.rows == ("mixing",)
    assert grid.values[0] == pytest.approx((-0.19667, -0.09667, 0.0), abs=1e-4)
    assert grid.diverging
    assert grid.low == -grid.high == pytest.approx(-0.19667, abs=1e-4)
    assert grid.marked == {(0, 0), (0, 1)}
    assert "Marked: a difference that the seeds show." in grid.caption


def test_a_grid_of_two_axes_is_a_map_per_scheme_on_one_scale() -> None:
    found = drawn(fabricated_sweep.sweep_document(TWO_AXES))
    assert list(found) == ["loss-grid-plain", "loss-grid-mixing", "difference-grid-mixing"]
    plain, mixing = heat(found["loss-grid-plain"]), heat(found["loss-grid-mixing"])
    assert (plain.low, plain.high) == (mixing.low, mixing.high) == (pytest.approx(1.95), pytest.approx(2.26))
    assert (plain.rows, plain.columns) == (("0.5", "1"), ("8", "16", "32"))
    assert (plain.marked, mixing.marked) == ({(0, 1)}, {(0, 0)})
    assert heat(found["difference-grid-mixing"]).values[0] == pytest.approx((-0.18, -0.02, -0.02))


def test_cells_without_a_result_are_empty() -> None:
    losses = {**ONE_AXIS, (None, 64.0): ("failed", [1.99, 2.0, 2.1])}
    grid = heat(drawn(fabricated_sweep.sweep_document(losses))["loss-grid"])
    assert grid.values[0][3] is None
    assert grid.values[1][3] == pytest.approx(2.03)


def scaling(sizes: int) -> dict[str, Any]:
    flops = [10.0 ** (13 + size) for size in range(sizes)]
    losses = {
        f"L{size}": {"plain": 1.5 * (each / FLOPS_PER_PFLOP_S_DAY) ** -0.05,
                     "mixing": 1.4 * (each / FLOPS_PER_PFLOP_S_DAY) ** -0.06}
        for size, each in enumerate(flops)
    }  # fmt: skip
    document = fabricated_sweep.grid_document(
        losses, [{"transformer_blocks": size} for size in range(sizes)], kind="scaling", report="scaling"
    )
    for run in document["runs"]:
        run["flops"] = flops[int(run["cell"][1:])]
    return document


def test_losses_over_compute_lie_on_the_laws_that_are_drawn_with_them() -> None:
    picture = lines(drawn(scaling(4))["scaling"])
    assert picture.x.logarithmic
    assert picture.y.logarithmic
    measured, law = picture.series[0], picture.series[2]
    assert (measured.joined, law.dashed, law.place) == (False, True, 0)
    assert measured.x == (1e13, 1e14, 1e15, 1e16)
    assert (law.x[0], law.x[-1]) == (pytest.approx(1e13), pytest.approx(1e16))
    for x, y in zip(law.x, law.y, strict=True):
        assert y == pytest.approx(1.5 * (x / FLOPS_PER_PFLOP_S_DAY) ** -0.05)
    assert "α: plain 0.05, mixing 0.06" in picture.caption


def test_too_few_sizes_have_points_and_no_law() -> None:
    picture = lines(drawn(scaling(2))["scaling"])
    assert len(picture.series) == 2
    assert "No law: it needs 3 sizes" in picture.caption


def test_a_ladder_shows_the_difference_by_horizon() -> None:
    document = fabricated_sweep.grid_document(
        {"x1": {"plain": [2.0, 2.1, 1.9], "mixing": [1.9, 2.0, 1.81]},
         "x2": {"plain": [1.8, 1.9, 1.7], "mixing": [1.75, 1.85, 1.66]}},
        [{"horizon": 1.0}, {"horizon": 2.0}], kind="horizon", report="horizon",
    )  # fmt: skip
    for cell in document["cells"]:
        cell["facts"]["tokens"] = round(1e6 * cell["coordinates"]["horizon"])
    found = drawn(document)
    assert list(found) == ["horizon-difference", "horizon"]
    curve = lines(found["horizon-difference"]).series[0]
    assert curve.x == (1e6, 2e6)
    assert curve.y == pytest.approx((-0.09667, -0.04667), abs=1e-4)
    assert curve.low is not None
    assert curve.low[0] == pytest.approx(-0.09667 - T2 * 0.0057735 / math.sqrt(3), abs=1e-4)
    assert lines(found["horizon-difference"]).zero
    assert "Trend: mixing +0.0500 nats per doubling of the tokens." in lines(found["horizon-difference"]).caption


def test_blocks_stand_in_order_of_their_number_with_the_papers_points_in_the_caption() -> None:
    document = fabricated_sweep.arms_document({"plain": 2.0, "size-2": 1.9, "size-8": 1.95}, report="blocks")
    for arm, size, count in zip(document["arms"][1:], (2, 8), (4, 1), strict=True):
        paper = [{"table": "Fig. 6", "row": f"S = {size}", "validation_loss": 1.7 + size / 1000}]
        arm["facts"] = {"block_sublayers": size, "num_blocks": count, "paper": paper}
    found = drawn(document)
    assert list(found) == ["blocks", "arms"]
    picture = lines(found["blocks"])
    reference, curve = picture.series
    assert (curve.x, curve.y) == ((1, 4), (1.95, 1.9))
    assert (reference.dashed, reference.y) == (True, (2.0, 2.0))
    assert "8 sublayers per block 1.708; 2 sublayers per block 1.702" in picture.caption


def test_depth_is_a_curve_per_scheme() -> None:
    document = fabricated_sweep.grid_document(
        {"b8": {"plain": 1.8, "mixing": 1.7}, "b4": {"plain": 2.0, "mixing": 1.95}},
        [{"transformer_blocks": 8}, {"transformer_blocks": 4}], kind="depth", report="depth",
    )  # fmt: skip
    found = drawn(document)
    assert (lines(found["depth"]).series[0].x, lines(found["depth"]).series[0].y) == ((4, 8), (2.0, 1.8))
    assert lines(found["depth-difference"]).series[0].y == pytest.approx((-0.05, -0.1))


@pytest.mark.parametrize("report", ["arms", "group", "ablations"])
def test_arms_are_points_of_one_picture(report: str) -> None:
    losses = {"plain": [2.0, 2.1, 1.9], "a": [1.9, 2.0, 1.81], "b": ["failed", 2.0, "diverged"], "c": None}
    picture = lines(drawn(fabricated_sweep.arms_document(losses, report=report))["arms"])
    assert picture.x.names == ("a", "b")
    assert [series.x for series in picture.series] == [(0,), (1,)]
    assert [series.place for series in picture.series] == [1, 2], "as in every other picture"
    assert picture.series[0].y[0] == pytest.approx(-0.09667, abs=1e-4)
    assert picture.series[1].low is None
    assert "a -0.0967 ± 0.0143; b -0.1000" in picture.alternative


def test_every_kind_draws_nothing_before_anything_has_finished() -> None:
    for report in names("report.pictures_of_sweeps"):
        if report == "tune":
            continue
        losses = {(None, 8.0): (None, None)}
        document = fabricated_sweep.sweep_document(losses, report=report)
        for cell in document["cells"]:
            cell["coordinates"] |= {"horizon": 1.0, "transformer_blocks": 8}
            cell["facts"]["tokens"] = 1000
        document["facts"] |= {"hops": 2, "solved_accuracy": 0.9}
        assert pictures_of_sweep(document) == [], report


def test_a_report_without_pictures_has_none() -> None:
    assert pictures_of_sweep(fabricated_sweep.arms_document({"a": 2.0}, report="something-else")) == []


def test_hops_are_what_most_seeds_solve_and_the_right_answers_behind_it() -> None:
    found = drawn(hops_document())
    plain, mixing = lines(found["hops-solved"]).series
    assert (plain.x, plain.y, mixing.y) == ((2, 8), (1, 0), (2, 4))
    views = found["hops"]
    assert isinstance(views, Views)
    assert (views.by, views.names) == ("transformer blocks", ("2", "8"))
    shares = [seed[1] for seed in ACCURACIES["L2"]["plain"]]
    curve = lines(views.views[0]).series[0]
    assert curve.x == (1, 2, 3, 4)
    assert curve.y[1] == pytest.approx(sum(shares) / 3)
    assert curve.low is not None


def test_a_tune_is_a_curve_over_the_rates_that_were_tried() -> None:
    document = tune_document({"plain": bowl(0.0), "mixing": bowl(4.0, level=1.9)})
    picture = lines(drawn(document)["learning-rate"])
    assert picture.x.logarithmic
    plain, mixing = picture.series
    assert min(zip(plain.y, plain.x, strict=True))[1] == pytest.approx(0.002)
    assert min(zip(mixing.y, mixing.x, strict=True))[1] == pytest.approx(0.004)
    assert "Best: plain 0.002, mixing 0.004." in picture.caption
