"""Laws of a scaling sweep whose losses lie on laws that are known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from attnres_cli.report.document import Chart, render
from attnres_cli.report.sweep_documents import plan_document, sweep_document
from attnres_cli.report.tables.sweep_laws import FLOPS_PER_PFLOP_S_DAY
from tests import fabricated_sweep
from tests.golden_files import check_golden

FLOPS = (1e13, 1e14, 1e15, 1e16)
NOISE = (0.0, 0.001, -0.001)
DEARER = 1.05


def law(coefficient: float, exponent: float, flops: float) -> float:
    return coefficient * float((flops / FLOPS_PER_PFLOP_S_DAY) ** -exponent)


def document(seeds: int = 1, sizes: int = 4, **changes: Any) -> dict[str, Any]:
    """prenorm on 1.5 · C^−0.05; attnres-full on 1.4 · C^−0.06 for 5 % more FLOPs."""
    noise = NOISE[:seeds]
    losses = {
        f"L{size}": {
            "prenorm": [law(1.5, 0.05, flops) + each for each in noise],
            "attnres-full": [law(1.4, 0.06, DEARER * flops) + each for each in noise],
        }
        for size, flops in enumerate(FLOPS[:sizes])
    }
    places = [{"transformer_blocks": size} for size in range(sizes)]
    facts = {"tokens_per_parameter": 2.0, "learning_rate_rule": "Peak learning rate = 0.01, for every scheme."}
    made = fabricated_sweep.grid_document(losses, places, kind="scaling", report="scaling", facts=facts, **changes)
    for run in made["runs"]:
        run["flops"] = FLOPS[int(run["cell"][1:])] * (DEARER if run["arm"] == "attnres-full" else 1.0)
    return made


def test_the_constants_are_those_of_the_laws() -> None:
    printed = json.loads(render(sweep_document(document()), "json"))["laws"]
    for label, coefficient, exponent in (("prenorm", 1.5, 0.05), ("attnres-full", 1.4, 0.06)):
        assert printed[label]["coefficient"]["value"] == pytest.approx(coefficient)
        assert printed[label]["exponent"]["value"] == pytest.approx(exponent)
        assert printed[label]["exponent"]["low"] is None
        assert printed[label]["irreducible"] is None


def test_the_multiplier_counts_what_the_scheme_costs_more() -> None:
    """The compute at which 1.5 · C^−0.05 reaches the scheme's loss at its largest size, over what the scheme took."""
    printed = json.loads(render(sweep_document(document()), "json"))["laws"]
    reached = law(1.4, 0.06, DEARER * FLOPS[-1])
    needed = (1.5 / reached) ** (1 / 0.05) * FLOPS_PER_PFLOP_S_DAY
    assert printed["attnres-full"]["compute_multiplier"]["value"] == pytest.approx(needed / (DEARER * FLOPS[-1]))
    assert printed["prenorm"]["compute_multiplier"] is None


def test_seeds_give_intervals_and_the_papers_constants_stand_beside() -> None:
    table = sweep_document(document(seeds=3)).tables["laws"]
    rows = {row[0]: row[1:] for row in table.shown().rows}
    assert rows["prenorm"][-2:] == ["1.891", "0.057"]
    assert rows["attnres-full"][-2:] == ["1.865", "0.057"]
    assert rows["prenorm"][1].startswith("0.0500 [0.0")
    assert rows["prenorm"][2] == "—"


def test_two_sizes_make_no_law() -> None:
    text = render(sweep_document(document(sizes=2)), "table")
    assert "A law needs 3 sizes that every scheme has finished with every seed." in text


def test_the_plan_says_shapes_ratio_and_rule() -> None:
    made = document()
    for cell in made["cells"]:
        cell["facts"]["shape"] = {"transformer_blocks": 4, "d_model": 32}
    text = render(plan_document(made), "table")
    assert "4 × 32" in text
    assert "2 tokens per non-embedding parameter" in text
    assert "Peak learning rate = 0.01" in text


@pytest.mark.parametrize("width", [80, None])
def test_the_sizes_and_laws_of_two_schemes(width: int | None) -> None:
    text = render(sweep_document(document(seeds=3), width), "table", width_columns=width)
    check_golden(f"sweep_scaling_{width or 'pipe'}.txt", text)
    if width:
        assert max(map(len, text.splitlines())) <= width


def test_a_law_is_a_straight_line_and_points_stand_on_it() -> None:
    made = document(sizes=3)
    alone = {**made, "arms": made["arms"][:1], "runs": [run for run in made["runs"] if run["arm"] == "prenorm"]}
    chart = next(block for block in sweep_document(alone).blocks if isinstance(block, Chart))
    drawn = [line.partition("┤")[2] or line.partition("│")[2] for line in chart.lines[:14]]
    points = [(line.index("A"), row) for row, line in enumerate(drawn) if "A" in line]
    assert len(points) == 3
    (x0, y0), (x1, y1), (x2, y2) = points
    assert (x1 - x0, y1 - y0) == (pytest.approx(x2 - x1, abs=1), pytest.approx(y2 - y1, abs=1))  # equal steps in log C
    assert x0 == 0
    assert all("·" in line for line in drawn[y0 + 1 : y1])
