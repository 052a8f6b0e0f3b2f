"""Depth-width grids, lowest cells and sentences, from documents whose losses were written down by hand."""

from __future__ import annotations

import json
import math
import re
from datetime import datetime
from typing import Any

import pytest

from attnres_cli.report.document import Document, render
from attnres_cli.report.heat import heat_colours
from attnres_cli.report.numbers import duration
from attnres_cli.report.sweep_documents import plan_document, sweep_document
from attnres_cli.report.sweep_grid import Grid, lowest_facts, lowest_sentences
from attnres_cli.report.table import Table
from attnres_cli.report.tables.sweep_grid import difference_grids, loss_grids
from attnres_cli.report.tables.sweeps import sweeps_document
from tests import fabricated_sweep
from tests.golden_files import check_golden

# Lowest: plain at 32 (1.90), mixing at 16 (1.84): deeper.
MOVING = {
    (None, 8.0): (2.10, 1.95),
    (None, 16.0): (1.95, 1.84),
    (None, 32.0): (1.90, 1.86),
    (None, 64.0): (1.93, 1.92),
}
# The paper's Fig. 7 in miniature, with a second axis.
TWO_AXES = {
    (0.3, 30.0): (1.857, 1.816), (0.3, 45.0): (1.851, 1.802), (0.3, 60.0): (1.847, 1.806),
    (0.5, 30.0): (1.883, 1.841), (0.5, 45.0): (1.859, 1.819), (0.5, 60.0): (1.849, 1.812),
}  # fmt: skip


def grid_of(losses: fabricated_sweep.Losses, **changes: Any) -> Grid:
    return Grid.of(fabricated_sweep.sweep_document(losses, **changes))


def text_of(losses: fabricated_sweep.Losses, **changes: Any) -> str:
    return "\n".join(lowest_sentences(grid_of(losses, **changes)))


def cells_of(table: Table) -> dict[str, list[str]]:
    shown = table.shown()
    return {row[0]: row[1:] for row in shown.rows}


def test_the_lowest_cell_of_each_scheme_is_marked_and_named() -> None:
    grid = grid_of(MOVING)
    plain, mixing = loss_grids(grid)
    assert cells_of(plain)["loss"] == ["2.1000", "1.9500", "↓ 1.9000", "1.9300"]
    assert cells_of(mixing)["loss"] == ["1.9500", "↓ 1.8400", "1.8600", "1.9200"]
    assert plain.shown().headings == ["d_model/L_b", "8", "16", "32", "64"]
    assert plain.shown().units == ["L_b×d_model", "8×64", "4×64", "2×64", "1×64"]


def test_the_move_is_said_with_both_cells_and_its_limits() -> None:
    text = text_of(MOVING)
    assert "plain: lowest at d_model/L_b 32 (2 blocks × 64 wide) with 1.9000; next 1.9300 at d_model/L_b 64." in text
    assert "the lowest cell moves from d_model/L_b 32 to d_model/L_b 16: deeper and narrower." in text
    assert "One seed and one learning rate per width: this is the lowest cell here, not an optimum." in text
    assert "edge" not in text


def test_the_difference_is_second_minus_first() -> None:
    (difference,) = difference_grids(grid_of(MOVING))
    assert cells_of(difference)["Δ"] == ["-0.1500", "-0.1100", "-0.0400", "-0.0100"]
    assert difference.title == "Δ loss, mixing − plain (below zero: mixing is lower)"


def test_all_schemes_share_one_heat_scale() -> None:
    plain, mixing = loss_grids(grid_of(MOVING))
    heats = [[table.cell(table.rows[0], column).heat for column in table.columns[1:]] for table in (plain, mixing)]
    assert heats[0][0] == 1.0  # 2.10 is the highest of both grids
    assert heats[1][1] == 0.0  # 1.84 the lowest
    assert heats[0][1] == heats[1][0] == pytest.approx((1.95 - 1.84) / (2.10 - 1.84))


def test_two_axes_give_a_row_per_head_ratio() -> None:
    plain, mixing = loss_grids(grid_of(TWO_AXES))
    assert cells_of(plain) == {"0.3": ["1.8570", "1.8510", "↓ 1.8470"], "0.5": ["1.8830", "1.8590", "1.8490"]}
    assert cells_of(mixing)["0.3"] == ["1.8160", "↓ 1.8020", "1.8060"]
    text = text_of(TWO_AXES)
    assert "moves from d_model/L_b 60, heads/L_b 0.3 to d_model/L_b 45, heads/L_b 0.3: deeper and narrower." in text
    assert "plain's lowest cell is at the edge of the grid (the largest d_model/L_b and the smallest heads/L_b)" in text
    assert "mixing's lowest cell is at the edge of the grid (the smallest heads/L_b)" in text


def test_an_edge_is_named_by_its_side() -> None:
    text = text_of({(None, 8.0): (1.8, 2.0), (None, 16.0): (1.9, 1.9), (None, 32.0): (2.0, 1.95)})
    assert "plain's lowest cell is at the edge of the grid (the smallest d_model/L_b)" in text
    assert "mixing's" not in text
    assert "shallower and wider" in text


def test_a_lowest_cell_that_stays_is_said_to_stay() -> None:
    text = text_of({(None, 8.0): (1.8, 1.7), (None, 16.0): (1.9, 1.9)})
    assert "From plain to mixing the lowest cell stays at d_model/L_b 8." in text


def test_cells_without_a_loss_from_every_scheme_are_not_compared() -> None:
    losses = {
        (None, 8.0): (2.0, 1.9),
        (None, 16.0): (1.5, "failed"),
        (None, 32.0): (1.9, 1.8),
        (None, 64.0): (1.8, None),
    }
    grid = grid_of(losses)
    plain, mixing = loss_grids(grid)
    assert cells_of(plain)["loss"] == ["2.0000", "1.5000", "↓ 1.9000", "1.8000"]
    assert cells_of(mixing)["loss"] == ["1.9000", "!", "↓ 1.8000", "—"]
    (difference,) = difference_grids(grid)
    assert cells_of(difference)["Δ"] == ["-0.1000", "!", "-0.1000", "—"]
    assert "2 of 4 cells have no loss from every scheme and were left out of this." in text_of(losses)


def test_nothing_finished_is_said_so() -> None:
    losses = {(None, 8.0): (2.0, "diverged"), (None, 16.0): (None, None)}
    assert lowest_sentences(grid_of(losses)) == [
        "No cell is finished with every scheme yet, so there is nothing to compare."
    ]
    assert lowest_facts(grid_of(losses)) == {"compared_cells": 0, "arms": {}}


def test_a_sweep_without_a_finished_run_shows_no_empty_grid_and_says_how_to_go_on() -> None:
    losses = {(None, 8.0): ("interrupted", None), (None, 16.0): (None, None)}
    document = sweep_document(fabricated_sweep.sweep_document(losses, status="interrupted"))
    text = render(document, "table")
    assert "Validation loss" not in text
    assert "Lowest cell" not in text
    assert "No run has finished\n  Go on with: attnres sweep resume fabricated\n" in text
    assert {"cells", "unfinished"} == set(document.tables)


def test_an_interrupted_sweep_shows_what_is_finished() -> None:
    document = sweep_document(fabricated_sweep.sweep_document({(None, 8.0): (2.0, None), (None, 16.0): (None, None)}))
    assert cells_of(document.tables["loss_plain"])["loss"] == ["2.0000", "—"]
    assert "loss_mixing" not in document.tables
    assert "difference_mixing" not in document.tables
    assert "nothing to compare" in render(document, "table")


def test_one_scheme_has_no_difference_grid() -> None:
    document = fabricated_sweep.sweep_document({(None, 8.0): (2.0,), (None, 16.0): (1.9,)}, arms=("plain",))
    grid = Grid.of(document)
    assert difference_grids(grid) == []
    assert "From" not in "\n".join(lowest_sentences(grid))


def test_a_run_without_a_result_is_a_row_with_its_reason() -> None:
    document = sweep_document(fabricated_sweep.sweep_document({(None, 8.0): (2.0, "failed")}))
    text = render(document, "table")
    assert re.search(r"r8 +mixing +0 +failed +0 +its process was killed by SIGKILL", text)


def test_impossible_cells_keep_their_column_and_reason() -> None:
    coordinates = {"ratio": 500.0, "head_ratio": None}
    reason = "less than one transformer block"
    impossible = [{"key": "r500", "arm": None, "coordinates": coordinates, "reason": reason}]
    document = fabricated_sweep.sweep_document(MOVING, impossible=impossible)
    assert cells_of(loss_grids(Grid.of(document))[0])["loss"][-1] == "—"
    for made in (sweep_document(document), plan_document(document)):
        assert "less than one transformer block" in render(made, "table")


def test_the_plan_prices_every_cell_and_says_what_is_pinned() -> None:
    text = render(plan_document(fabricated_sweep.sweep_document(MOVING)), "table")
    assert "Pinned: non-embedding parameters, to 400,000 of the preset's own shape" in text
    assert "Peak learning rate = 0.004 × (d_model / 64)^-0.5" in text
    assert "8 runs of 512,000 tokens (500 steps), 4.1M tokens and 1.24e+13 FLOPs in all." in text
    assert re.search(r"r8 +8×64 +4×16 .* \+0.25 +\+3.4 +\+2.0", text)


def test_the_cells_fit_a_terminal_of_eighty_columns_with_every_count() -> None:
    document = fabricated_sweep.sweep_document(TWO_AXES, arms=("prenorm", "attnres-block"))
    cells = plan_document(document, 80).tables["cells"]
    assert cells.width_columns <= 80
    text = render(plan_document(document, 80), "table", width_columns=80)
    assert re.search(r"r30-h0.3 +2×60 +4×15 +180 +401k \+0.25 +3M \+3.4 +\+2.0 +0.004$", text, re.MULTILINE)
    assert text.count("r30-h0.3") == 1
    assert "whose 400,000 non-embedding parameters are pinned" in " ".join(text.split())
    assert plan_document(document, 200).tables["cells"] == plan_document(document).tables["cells"]


def test_json_holds_the_whole_file_and_the_lowest_cells() -> None:
    document = fabricated_sweep.sweep_document(MOVING)
    printed = json.loads(render(sweep_document(document), "json"))
    assert printed["schema"] == "attnres.sweep/2"
    assert printed["runs"] == document["runs"]
    assert printed["lowest"]["arms"]["mixing"] == {
        "cell": "r16", "ratio": 16.0, "head_ratio": None, "loss": 1.84, "at_edge": [], "shown": False,
    }  # fmt: skip


@pytest.mark.parametrize("width", [80, None])
def test_a_sweep_in_a_terminal_of_eighty_columns_and_in_a_pipe(width: int | None) -> None:
    text = render(sweep_document(fabricated_sweep.sweep_document(TWO_AXES), width), "table", width_columns=width)
    check_golden(f"sweep_{width or 'pipe'}.txt", text)
    if width:
        assert max(map(len, text.splitlines())) <= width


def test_colours_only_where_they_are_wanted() -> None:
    document: Document = sweep_document(fabricated_sweep.sweep_document(MOVING))
    assert "\x1b[" not in render(document, "table")
    assert "48;5;" in render(document, "table", colour=True)


def test_heat_colours_rise_in_lightness_and_keep_text_readable() -> None:
    def luminance(colour: tuple[int, int, int]) -> float:
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), colour, strict=True))

    colours = [heat_colours(step / 20) for step in range(21)]
    backgrounds = [luminance(background) for background, _ in colours]
    assert backgrounds == sorted(backgrounds)
    assert all(abs(luminance(text) - luminance(background)) > 80 for background, text in colours)
    assert heat_colours(-3) == heat_colours(0)
    assert heat_colours(7) == heat_colours(1)


LISTED: list[dict[str, Any]] = [
    {"name": "good", "kind": "depth-width", "status": "finished", "preset": "tiny",
     "arms": ["plain", "mixing"], "seeds": 1, "runs": 4,
     "counted": {"finished": 3, "failed": 1}, "created": "2026-11-30T01:00:00+00:00"},
    {"name": "bad", "status": "unreadable", "error": "The file of sweep 'bad' is damaged: KeyError('runs')."},
]  # fmt: skip
TWO_HOURS_LATER = datetime.fromisoformat("2026-11-30T03:00:00+00:00").timestamp()


def test_the_list_of_sweeps_shows_a_damaged_file_as_such() -> None:
    text = render(sweeps_document(LISTED, now=TWO_HOURS_LATER), "table")
    assert duration(7200) in text
    assert re.search(r"finished +3 +4 +1 +depth-width +2 +1 +tiny +\S+ +good", text)
    assert re.search(r"unreadable \[1\] +— +— +— +— +— +— +— +— +bad", text)
    assert "damaged" in text


@pytest.mark.parametrize(("width", "left_out"), [(200, []), (80, ["age", "seeds", "arms", "preset"]), (40, ["kind"])])
def test_a_narrow_terminal_does_without_columns_and_keeps_names_whole(width: int, left_out: list[str]) -> None:
    name = "a-name-of-thirty-characters-30"
    document = sweeps_document([LISTED[0] | {"name": name}, LISTED[1]], now=TWO_HOURS_LATER, width_columns=width)
    shown = render(document, "table", width_columns=width).splitlines()
    headings = next(line for line in shown if "status" in line).split()
    assert not set(left_out) & set(headings)
    assert headings[:4] == ["status", "done", "runs", "failed"]
    assert headings[-1] == "sweep"
    assert sum(name in line for line in shown) == 1
    assert width == 40 or max(map(len, shown)) <= width


# ---------------------------------------------------------------- seeds

# Five seeds whose noise (0.01) is shared by the arms: plain is lowest at 16, mixing at 8.
NOISE = (0.000, 0.010, -0.010, 0.005, -0.005)
WIGGLE = (0.000, 0.001, -0.001, 0.0005, -0.0005)


def seeded(plain: float, mixing: float) -> tuple[list[float], list[float]]:
    return [plain + noise for noise in NOISE], [mixing + noise + own for noise, own in zip(NOISE, WIGGLE, strict=True)]


SEEDED = {(None, 8.0): seeded(2.00, 1.80), (None, 16.0): seeded(1.90, 1.85), (None, 32.0): seeded(1.95, 1.95)}


def test_means_and_their_intervals_are_those_of_the_seeds() -> None:
    plain, _ = loss_grids(grid_of(SEEDED))
    assert cells_of(plain)["loss"] == ["2.0000", "★ 1.9000", "1.9500"]
    # Student's t for 4 degrees of freedom: 2.7764; the deviations have the standard deviation 0.0079057.
    half = 2.7764451 * 0.00790569 / 5**0.5
    assert cells_of(plain)["± 95 %"] == [f"{half:.4f}"] * 3


def test_differences_are_paired_by_seed_corrected_and_marked() -> None:
    (difference,) = difference_grids(grid_of(SEEDED))
    assert cells_of(difference)["Δ"] == ["-0.2000", "-0.0500", "~ +0.0000"]
    half = 2.7764451 * 0.000790569 / 5**0.5  # the shared noise is gone
    assert cells_of(difference)["± 95 %"] == [f"{half:.4f}"] * 3


def test_a_star_only_where_the_paired_interval_excludes_the_neighbours() -> None:
    text = text_of(SEEDED)
    first = (
        "plain: lowest at d_model/L_b 16 (4 blocks × 64 wide) with 1.9000; next 1.9500 at d_model/L_b 32; lower than"
    )
    assert first in text
    blurred = {
        (None, 8.0): ([2.0, 2.1, 1.9], [1.9, 2.0, 1.8]),
        (None, 16.0): ([2.1, 1.95, 1.9], [1.95, 1.95, 1.95]),
        (None, 32.0): ([2.0, 2.0, 1.9], [2.1, 2.1, 2.1]),
    }
    grid = grid_of(blurred)
    assert "★" not in "".join(map(str, [cells_of(table) for table in loss_grids(grid)]))
    text = text_of(blurred)
    assert "not shown to be lower than its neighbours (~)" in text


def parabola(lowest: float, wobble: float = 0.0) -> dict[float, list[float]]:
    """Loss 2 + (log2 ratio - log2 lowest)² / 10 at four ratios; a seed moves the minimum by ± wobble octaves."""
    shifts = (0.0, wobble, -wobble)
    return {
        ratio: [2 + (math.log2(ratio / lowest) - shift) ** 2 / 10 for shift in shifts]
        for ratio in (8.0, 16.0, 32.0, 64.0)
    }


def with_optima(plain: dict[float, list[float]], mixing: dict[float, list[float]]) -> dict[str, Any]:
    losses = {(None, ratio): (plain[ratio], mixing[ratio]) for ratio in plain}
    return fabricated_sweep.sweep_document(losses)


def test_the_smooth_optimum_is_that_of_the_parabola_and_its_move_is_told() -> None:
    document = sweep_document(with_optima(parabola(32, 0.05), parabola(20, 0.1)))
    rows = {row[0]: row[1:] for row in document.tables["optimum"].shown().rows}
    assert (rows["plain"][0], rows["mixing"][0]) == ("32", "20")
    low, high = map(float, rows["plain"][1].split(" to "))
    assert low < 32 < high
    text = render(document, "table")
    assert re.search(r"Smooth optimum of d_model/L_b: mixing's is 0.6\d × plain's \(95 %: 0.5\d to 0.6\d\):", text)
    assert "it moved, to deeper and narrower shapes." in text
    printed = json.loads(render(document, "json"))["optimum"]
    assert printed[1]["shift"]["factor"] == pytest.approx(0.625)


def test_an_optimum_that_seeds_move_more_than_the_scheme_does_is_not_shown() -> None:
    text = render(sweep_document(with_optima(parabola(32), parabola(30, 0.5))), "table")
    assert "that it moved is not shown (~)." in text
    assert "it moved, to" not in text


def test_an_optimum_beyond_the_grid_is_no_number() -> None:
    document = sweep_document(with_optima(parabola(200, 0.1), parabola(20, 0.1)))
    assert document.tables["optimum"].shown().rows[0][1] == "at or above the highest"
    said = render(document, "table")
    assert "moved from plain to mixing cannot be said: plain's lies at the highest d_model/L_b or beyond it." in said


def test_three_cells_make_no_smooth_optimum() -> None:
    document = sweep_document(fabricated_sweep.sweep_document(SEEDED))
    assert "optimum" not in document.tables
    assert "moved from plain to mixing cannot be said: fewer than 4 cells have every loss." in render(document, "table")


def test_two_seeds_give_no_verdict() -> None:
    two = {(None, 8.0): ([2.0, 2.1], [1.0, 1.1]), (None, 16.0): ([2.2, 2.3], [1.2, 1.3])}
    grid = grid_of(two)
    assert not grid.is_shown("plain")
    assert "~" not in str(cells_of(difference_grids(grid)[0]))
    text = render(sweep_document(fabricated_sweep.sweep_document(two)), "table")
    assert "2 seeds: fewer than 3 pairs never give a verdict." in text
    assert "Whether the smooth optimum moved cannot be said from fewer than 3 seeds." in text


def test_a_cell_with_a_failed_seed_shows_the_rest_and_is_not_compared() -> None:
    losses = {**SEEDED, (None, 16.0): ([1.90, 1.91, "failed", 1.9, 1.9], seeded(1.9, 1.85)[1])}
    grid = grid_of(losses)
    plain, _ = loss_grids(grid)
    assert cells_of(plain)["loss"] == ["2.0000", "1.9025", "★ 1.9500"]
    assert plain.shown().notes == ["[1] 1 of 5 seeds without a loss"]
    assert "1 of 3 cells have no loss from every scheme and were left out of this." in text_of(losses)
