"""What a sweep says of learning rates that trials chose, from documents written down by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from attnres_cli.report.cell_rates import cell_rates
from attnres_cli.report.document import render
from attnres_cli.report.sweep_documents import plan_document, status_document, sweep_document
from attnres_cli.report.sweep_results import Results
from tests import fabricated_sweep

GRID: fabricated_sweep.Losses = {
    (None, 8.0): ((2.0, 2.1, 2.2), (1.9, 2.0, 2.1)),
    (None, 16.0): ((2.3, 2.4, 2.5), (2.2, 2.3, 2.4)),
}
RATES = (0.002828, 0.004, 0.005657)
# Losses of the three candidates of every cell and arm; text: the status of one without a loss.
TRIALS: dict[tuple[str, str], tuple[float | str | None, ...]] = {
    ("r8", "plain"): (2.3, 2.1, 2.2),
    ("r8", "mixing"): (2.1, 2.2, "diverged"),
    ("r16", "plain"): ("diverged", "diverged", "diverged"),
    ("r16", "mixing"): (2.3, 2.2, 2.1),
}


def document_with(trials: Mapping[tuple[str, str], tuple[float | str | None, ...]]) -> dict[str, Any]:
    document = fabricated_sweep.sweep_document(GRID)
    runs = []
    for (cell, arm), losses in trials.items():
        for rate, loss in zip(RATES, losses, strict=True):
            status = loss if isinstance(loss, str) else "planned" if loss is None else "finished"
            runs.append({
                **document["runs"][0], "cell": cell, "arm": arm, "seed": 1000, "trial": f"lr{rate:g}",
                "changes": {"train.learning_rate": rate}, "status": status, "digest": f"{cell}/{arm}/{rate}",
                "loss": loss if isinstance(loss, float) else None, "folder": f"trials/{cell}-{arm}-lr{rate:g}-s1000",
            })  # fmt: skip
    document["runs"] = [*runs, *document["runs"]]
    return document


def text_of(document: dict[str, Any]) -> str:
    return " ".join(render(sweep_document(document), "table").split())


def test_each_cell_and_arm_has_the_best_of_its_own_and_edges_are_named_as_not_tuned() -> None:
    found = cell_rates(document_with(TRIALS))
    chosen = {key: each.chosen.rate if each.chosen else None for key, each in found.items()}
    assert chosen == {
        ("r8", "plain"): 0.004, ("r8", "mixing"): 0.002828, ("r16", "plain"): 0.004, ("r16", "mixing"): 0.005657,
    }  # fmt: skip
    assert [each.verdict for each in found.values()] == ["tuned", "edge", "diverged", "edge"]
    said = text_of(document_with(TRIALS))
    assert "3 learning rates for every cell and arm, × 0.707, 1, 1.41 of the rule's, with seed 1000, which no" in said
    assert "Not tuned, best at the lowest rate tried: r8 mixing. A better one may lie beyond." in said
    assert "Not tuned, best at the highest rate tried: r16 mixing." in said
    assert "Not tuned, every rate diverged: r16 plain. The rule's was taken." in said
    assert "3 of 4 learning rates are not tuned" in said
    assert "The learning rate of every width comes from a rule" not in said


def test_no_result_counts_a_trial() -> None:
    document = document_with(TRIALS)
    plain = fabricated_sweep.sweep_document(GRID)
    assert Results.of(document).runs == Results.of(plain).runs
    with_them, without = (json.loads(render(sweep_document(each), "json")) for each in (document, plain))
    for key in ("lowest", "optimum", "differences"):
        assert with_them[key] == without[key]
    assert with_them["price"]["runs"] == without["price"]["runs"] + 12
    assert "rates" not in without
    [facts] = [each for each in with_them["rates"] if (each["cell"], each["arm"]) == ("r8", "mixing")]
    assert (facts["learning_rate"], facts["rule_learning_rate"], facts["is_tuned"]) == (0.002828, 0.004, False)
    assert facts["edge"] == "lowest"
    assert [each["loss"] for each in facts["trials"]] == [2.1, 2.2, None]
    assert [each["status"] for each in facts["trials"]] == ["finished", "finished", "diverged"]


def test_all_tuned_is_said() -> None:
    said = text_of(document_with(dict.fromkeys(TRIALS, (2.3, 2.1, 2.2))))
    assert "Every cell and scheme has the best of the learning rates that it tried." in said
    assert "Not tuned" not in said
    assert "larger --tune-rates" not in said


@pytest.mark.parametrize(("losses", "word"), [((2.3, None, 2.2), "not yet"), ((2.3, "failed", 2.2), "no: failed")])
def test_an_open_choice_is_none(losses: tuple[float | str | None, ...], word: str) -> None:
    document = document_with({("r8", "plain"): losses})
    [found] = cell_rates(document).values()
    assert (found.chosen, found.best, found.side) == (None, None, None)
    [row] = sweep_document(document).tables["rates"].rows
    assert row["tuned"] == word


def test_a_plan_says_how_the_rates_will_be_chosen_and_the_status_names_every_trial() -> None:
    document = document_with(TRIALS)
    said = " ".join(render(plan_document(document), "table").split())
    assert "12 of the 24 runs come first: 3 learning rates for every cell and arm" in said
    rows = status_document(document).tables["runs"].rows
    assert [row["arm"] for row in rows[:3]] == ["plain lr0.002828", "plain lr0.004", "plain lr0.005657"]
    assert rows[-1]["arm"] == "mixing"
