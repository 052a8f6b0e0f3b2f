"""Tables of arms, against numbers worked out by hand, and golden tables."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from attnres_cli.report.document import render
from attnres_cli.report.sweep_documents import plan_document, status_document, sweep_document
from attnres_cli.report.table import Table
from tests import fabricated_sweep
from tests.golden_files import check_golden

# Three seeds: a is 0.1 below the baseline, b is noise around it, c lost two seeds.
ARMS: dict[str, list[float | str | None]] = {
    "plain": [2.0, 2.1, 1.9],
    "a": [1.9, 2.0, 1.81],
    "b": [2.0, 2.11, 1.89],
    "c": ["failed", 2.0, "diverged"],
}
HEADS = {"key": "", "arm": "heads", "coordinates": {}, "reason": "16 heads do not divide 100"}
# Student's t, 97.5 %: 4.302653 with two degrees of freedom.
T2 = 4.302653


def rows_of(document: dict[str, Any], key: str = "arms") -> dict[str, list[str]]:
    shown = sweep_document(document).tables[key].shown()
    return {row[0]: row[1:] for row in shown.rows}


def test_means_differences_and_intervals_are_those_of_the_formulas() -> None:
    rows = rows_of(fabricated_sweep.arms_document(ARMS))
    # (2.0 + 2.1 + 1.9) / 3, deviation 0.1; differences −0.1, −0.1, −0.09: mean −0.09667, deviation 0.0057735
    assert rows["plain"][:2] == ["2.0000", f"{T2 * 0.1 / math.sqrt(3):.4f}"]
    half = T2 * 0.0057735 / math.sqrt(3)
    assert rows["a"][2:4] == ["-0.0967", f"{half:.4f}"]


def test_p_values_are_corrected_over_the_arms_of_the_table() -> None:
    # t = 0.096667 / (0.0057735 / √3) = 29.0 with two degrees of freedom: p = 0.0011869; two tests: twice that.
    assert rows_of(fabricated_sweep.arms_document(ARMS))["a"][4] == "0.0024"
    alone = {name: ARMS[name] for name in ("plain", "a")}
    assert rows_of(fabricated_sweep.arms_document(alone))["a"][4] == "0.0012"


def test_a_difference_that_holm_takes_away_is_not_shown() -> None:
    """The interval excludes 0 (p = 0.027), and among four arms that is not enough."""
    border = [0.0, -0.1, -0.2]
    losses = {"plain": [2.0, 2.1, 1.9], "edge": [2.0 - 0.2, 2.1 - 0.27, 1.9 - 0.15]}
    assert not rows_of(fabricated_sweep.arms_document(losses))["edge"][2].startswith("~")
    more = {name: [2.0 + each, 2.1 - each, 1.9 + each] for name, each in zip("xyz", border, strict=True)}
    assert rows_of(fabricated_sweep.arms_document({**losses, **more}))["edge"][2].startswith("~ -0.2")


def test_the_lowest_gets_a_star_only_where_the_next_is_excluded() -> None:
    rows = rows_of(fabricated_sweep.arms_document(ARMS))
    assert rows["a"][0] == "★ 1.9033"
    close = {"plain": [2.0, 2.1, 1.9], "a": [1.9, 2.0, 1.8], "b": [1.91, 1.99, 1.81]}
    assert rows_of(fabricated_sweep.arms_document(close))["a"][0] == "↓ 1.9000"
    assert rows_of(fabricated_sweep.arms_document({"plain": 2.0, "a": 1.9}))["a"][0] == "↓ 1.9000"


def test_one_seed_is_said_and_gives_no_verdict() -> None:
    text = render(sweep_document(fabricated_sweep.arms_document({"plain": 2.0, "a": 1.9})), "table")
    assert "One seed: single runs without an interval, and no verdict. --seeds 5 gives both." in text
    for absent in ("±", "~", "What the seeds show", "★"):
        assert absent not in text


def test_two_seeds_give_intervals_and_no_verdict() -> None:
    text = render(sweep_document(fabricated_sweep.arms_document({"plain": [2.0, 2.1], "a": [1.0, 1.1]})), "table")
    assert "2 seeds: fewer than 3 pairs never give a verdict." in text
    assert "What the seeds show" not in text


def test_the_three_outcomes_are_never_mixed_up() -> None:
    text = render(sweep_document(fabricated_sweep.arms_document(ARMS)), "table")
    assert "against plain, lower: a; not shown (~): b; too few pairs for a verdict: c." in text
    outcomes = {row["arm"]: row["outcome"] for row in json.loads(as_json(ARMS))["differences"]}
    assert outcomes == {"a": "lower", "b": "not shown", "c": "too few"}


def as_json(losses: dict[str, list[float | str | None]]) -> str:
    return render(sweep_document(fabricated_sweep.arms_document(losses)), "json")


def test_arms_are_sorted_by_loss_after_the_reference() -> None:
    losses = {"plain": 2.0, "worse": 2.2, "failed": "failed", "best": 1.8}
    assert list(rows_of(fabricated_sweep.arms_document(losses))) == ["plain", "best", "worse", "failed"]
    in_order = fabricated_sweep.arms_document(losses, kind="group", report="group")
    assert list(rows_of(in_order)) == ["plain", "worse", "failed", "best"]


def test_seeds_that_were_added_later_are_exploratory() -> None:
    document = fabricated_sweep.arms_document(ARMS, planned_seeds=2)
    assert "Exploratory: 1 of the 3 seeds were added after results were there." in render(
        sweep_document(document), "table"
    )
    assert "Exploratory" not in render(sweep_document(fabricated_sweep.arms_document(ARMS)), "table")


def test_ablations_stand_beside_the_papers_rows() -> None:
    document = fabricated_sweep.arms_document(ARMS, kind="ablations", report="ablations", impossible=[
        {**HEADS, "facts": {"paper": [{"table": "Table 4", "row": "H = 16", "validation_loss": 1.752}]}},
    ])  # fmt: skip
    said = {"plain": 1.766, "a": 1.737, "b": 1.749}
    for arm in document["arms"]:
        if arm["label"] in said:
            loss = said[arm["label"]]
            arm["facts"]["paper"] = [{"table": "Table 4", "row": arm["label"].upper(), "validation_loss": loss}]
    rows = rows_of(document, "paper")
    assert rows == {
        "plain": ["", "", "1.766", "Table 4: PLAIN"],
        "a": ["-0.0967", "-0.029", "1.737", "Table 4: A"],
        "b": ["~ +0.0000", "-0.017", "1.749", "Table 4: B"],
        "heads": ["—", "-0.014", "1.752", "Table 4: H = 16"],
    }


def test_a_point_that_the_paper_shows_twice_is_one_row() -> None:
    document = fabricated_sweep.arms_document({"plain": 2.0, "a": 1.9}, kind="ablations", report="ablations")
    document["arms"][0]["facts"]["paper"] = [{"table": "T", "row": "base", "validation_loss": 1.766}]
    document["arms"][1]["facts"]["paper"] = [
        {"table": "T", "row": "one", "validation_loss": 1.7},
        {"table": "F", "row": "two", "validation_loss": 1.7},
    ]
    assert rows_of(document, "paper")["a"] == ["-0.1000", "-0.066", "1.700", "T: one; F: two"]


def test_an_arm_that_is_better_for_having_lost_runs_gets_no_verdict() -> None:
    losses: dict[str, list[float | str | None]] = {
        "plain": [2.0, 2.1, 1.9, 2.0],
        "a": [1.9, 2.0, 1.81, "diverged"],
        "b": [2.2, 2.3, 2.11, "diverged"],
    }
    outcomes = {row["arm"]: row["outcome"] for row in json.loads(as_json(losses))["differences"]}
    assert outcomes == {"a": "diverged", "b": "higher"}
    text = render(sweep_document(fabricated_sweep.arms_document(losses)), "table")
    assert "higher: b; no verdict, the better arm lost runs that diverged: a." in text


def test_each_step_deeper_is_paired_by_seed() -> None:
    losses = {
        "L2": {"plain": [2.0, 2.1, 1.9], "a": [1.9, 2.0, 1.8]},
        "L4": {"plain": [2.01, 2.09, 1.9], "a": [1.8, 1.91, 1.7]},
    }
    places = [{"transformer_blocks": 2}, {"transformer_blocks": 4}]
    document = sweep_document(fabricated_sweep.grid_document(losses, places, kind="depth", report="depth"))
    steps = {row[0]: row[1] for row in document.tables["steps"].shown().rows}
    assert (steps["plain"], steps["a"]) == ("~ +0.0000", "-0.0967")


def test_cells_of_a_grid_are_told_apart_by_their_coordinates() -> None:
    losses = {"x": {"plain": 2.0, "a": 1.9}, "y": {"plain": 1.8, "a": 1.7}}
    places = [{"train.learning_rate": 0.001}, {"train.learning_rate": 0.002}]
    table: Table = sweep_document(fabricated_sweep.grid_document(losses, places)).tables["arms"]
    assert table.shown().headings[:2] == ["learning rate", "arm"]
    assert [row[0] for row in table.shown().rows] == ["0.001", "0.001", "0.002", "0.002"]


def test_the_status_names_what_is_left_and_how_to_go_on() -> None:
    document = fabricated_sweep.arms_document({"plain": [2.0, None], "a": ["failed", None]}, status="interrupted")
    text = render(status_document(document), "table")
    assert "1 finished, 2 planned, 1 failed" in text
    assert "Go on with: attnres sweep resume fabricated" in text


@pytest.mark.parametrize("width", [80, None])
def test_a_group_in_a_terminal_of_eighty_columns_and_in_a_pipe(width: int | None) -> None:
    document = fabricated_sweep.arms_document(ARMS, kind="group", report="group", impossible=[HEADS])
    text = render(sweep_document(document, width), "table", width_columns=width)
    check_golden(f"sweep_group_{width or 'pipe'}.txt", text)
    if width:
        assert max(map(len, text.splitlines())) <= width


def test_a_plan_names_every_run_and_the_price() -> None:
    budget = {
        "kind": "minutes",
        "value": 10,
        "estimated_minutes": 9.5,
        "parallel_runs": 2,
        "step_seconds": {"plain": {}},
    }
    document = fabricated_sweep.arms_document(ARMS, impossible=[HEADS], budget=budget)
    text = render(plan_document(document), "table")
    assert "12 runs of 512,000 tokens (500 steps), 6.14M tokens and 1.9e+13 FLOPs in all, about 9m 30s here" in text
    assert "16 heads do not divide 100" in text
