"""What a sweep over hops shows, from right answers that were written down by hand."""

from __future__ import annotations

import json
import math
from typing import Any

from attnres_cli.report.document import render
from attnres_cli.report.sweep_documents import plan_document, sweep_document
from tests import fabricated_sweep
from tests.golden_files import check_golden

# By depth and arm: of each seed, the share of right answers for 1, 2 … hops.
ACCURACIES: dict[str, dict[str, list[list[float]]]] = {
    "L2": {
        "plain": [[1.0, 0.3, 0.1, 0.1], [0.95, 0.91, 0.2, 0.1], [0.8, 0.95, 0.2, 0.1]],
        "mixing": [[1.0, 1.0, 0.5, 0.1], [1.0, 0.9, 0.2, 0.1], [1.0, 0.89, 0.95, 0.1]],
    },
    "L8": {
        "plain": [[0.2, 0.1, 0.1, 0.1], [0.3, 0.1, 0.1, 0.1], [1.0, 0.1, 0.1, 0.1]],
        "mixing": [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.97], [1.0, 1.0, 1.0, 0.2]],
    },
}


def document(**changes: Any) -> dict[str, Any]:
    made = fabricated_sweep.grid_document(
        {cell: {arm: [1.0] * 3 for arm in of_arms} for cell, of_arms in ACCURACIES.items()},
        [{"transformer_blocks": 2}, {"transformer_blocks": 8}],
        kind="hops",
        report="hops",
        facts={"hops": 4, "nodes": 8, "solved_accuracy": 0.9},
        **changes,
    )
    for run in made["runs"]:
        shares = ACCURACIES[run["cell"]][run["arm"]][run["seed"]]
        run["figures"] = {
            f"{name}_{k}": value
            for k, share in enumerate(shares, start=1)
            for name, value in (("accuracy", share), ("answer_loss", 2 * (1 - share)), ("answers", 120.0 + k))
        }
    return made


def test_a_number_of_hops_is_solved_with_every_smaller_one_by_most_seeds() -> None:
    shown = sweep_document(document())
    rows = {(row["axis_transformer_blocks"], row["arm"]): row for row in shown.tables["hops"].to_dict()["rows"]}
    # plain at 2 blocks: one hop by two of three (the third has 80 %), two hops by one; mixing: two hops by two.
    assert {place: (row["solved"], row["seeds"]) for place, row in rows.items()} == {
        (2, "plain"): (1, 2), (2, "mixing"): (2, 2), (8, "plain"): (0, 3), (8, "mixing"): (4, 2),
    }  # fmt: skip
    assert rows[2, "plain"]["accuracy_2"] == (0.3 + 0.91 + 0.95) / 3
    by_seed = shown.tables["hops_by_seed"].to_dict()["rows"]
    assert [[row[f"seed_{seed}"] for seed in range(3)] for row in by_seed] == [
        [1, 2, 0],
        [2, 2, 1],
        [0, 0, 1],
        [4, 4, 3],
    ]
    losses = shown.tables["hops_loss"].to_dict()["rows"]
    assert math.isclose(losses[0]["loss_1"], (0.0 + 0.1 + 0.4) / 3)
    found = {(each["cell"], each["arm"], each["seed"]): each for each in shown.payload["hops"]}
    assert found["L2", "mixing", 2]["deepest_solved"] == 1
    assert found["L2", "mixing", 2]["accuracy"] == {"1": 1.0, "2": 0.89, "3": 0.95, "4": 0.1}


def test_eight_hops_of_schemes_with_long_names_fit_80_columns() -> None:
    made = document()
    made["facts"] |= {"hops": 8, "nodes": 16}
    for run in made["runs"]:
        run["figures"] = {
            f"{name}_{k}": value
            for k in range(1, 9)
            for name, value in (("accuracy", 1.0 if k == 1 else 0.07), ("answer_loss", 2.71), ("answers", 250.0))
        }
    named = json.loads(json.dumps(made).replace('"plain"', '"prenorm"').replace('"mixing"', '"attnres-block"'))
    text = render(sweep_document(named, 80), "table", width_columns=80)
    assert max(map(len, text.splitlines())) <= 80
    first = next(line for line in text.splitlines() if line.split()[:2] == ["2", "attnres-block"])
    assert first.split() == ["2", "attnres-block", "1", "3", "of", "3", "100", *["7"] * 7]  # nothing folded


def test_the_whole_page() -> None:
    text = render(sweep_document(document(), 80), "table", width_columns=80)
    assert max(map(len, text.splitlines())) <= 80
    check_golden("sweep_hops_80.txt", text)


def test_what_is_not_there_yet_is_not_counted() -> None:
    made = document()
    for run in made["runs"]:
        if run["seed"] > 0 and run["arm"] == "mixing":
            run["status"] = "planned"
    shown = sweep_document(made)
    row = shown.tables["hops"].to_dict()["rows"][1]
    assert (row["solved"], row["seeds"]) == (2, 1)
    assert "mixing, L2: 2 seeds without a result" in render(shown, "table")
    for run in made["runs"]:
        run["status"] = "planned"
    assert "hops" not in sweep_document(made).tables


def test_the_plan_says_what_is_asked_and_when_it_is_solved() -> None:
    text = render(plan_document(document()), "table")
    assert "Questions of 1 to 4 hops through a cycle of 8 nodes" in text
    assert "solved from 90% right answers" in text
