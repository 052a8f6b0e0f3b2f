"""What a tune says, from documents with losses from known curves; nothing is trained."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from attnres_cli.analysis.tuning import Trial, factor, next_trials
from attnres_cli.report.document import render
from attnres_cli.report.sweep_documents import sweep_document
from attnres_cli.report.tuning import Tuning, search_of
from tests.fabricated_sweep import grid_document

BASE = 0.002
Curve = Callable[[Trial, int], float]


def bowl(rate: float, level: float = 2.0, noise: float = 0.0) -> Curve:
    """Nats by trial and seed: least at this quarter octave; a seed shifts the place by `noise` quarter octaves."""
    return lambda trial, seed: level + 0.01 * (trial.rate - rate - noise * (seed - 1)) ** 2


def tune_document(curves: dict[str, Curve], *, seeds: int = 1, points: int = 5, **engine: Any) -> dict[str, Any]:
    """A finished tune of these arms. engine: the settings of another one than the grid."""
    request = {"points": [2.0**step for step in range(-(points // 2), points // 2 + 1)], "weight_decay": False,
               "query_lr_factor": False, "horizon_fraction": 1.0, **engine}  # fmt: skip
    search = search_of(request)
    wanted: dict[str, tuple[Trial, ...]] = {}
    losses: dict[str, dict[Trial, float]] = {label: {} for label in curves}
    for label, curve in curves.items():
        while len(losses[label]) < len(found := next_trials(search, losses[label], has_query=False)):
            losses[label] |= {trial: sum(curve(trial, seed) for seed in range(seeds)) / seeds for trial in found}
        wanted[label] = found
    trials = sorted({trial for each in wanted.values() for trial in each})
    keys = {trial: f"lr{BASE * factor(trial.rate):.4g}" for trial in trials}
    by_cell = {
        keys[trial]: {
            label: [loss if math.isfinite(loss := curve(trial, seed)) else "diverged" for seed in range(seeds)]
            for label, curve in curves.items()
        }
        for trial in trials
    }
    coordinates = [{"learning_rate": float(f"{BASE * factor(trial.rate):.4g}")} for trial in trials]
    document = grid_document(by_cell, coordinates, kind="tune", report="tune", request=request,
                             command="attnres tune tiny")  # fmt: skip
    for cell, trial in zip(document["cells"], trials, strict=True):
        cell["facts"]["trial"] = {"rate": trial.rate, "decay": 0, "query": 0, "full": False, "refines": trial.refines}
    wants = {(keys[trial], label) for label, each in wanted.items() for trial in each}
    document["runs"] = [run for run in document["runs"] if (run["cell"], run["arm"]) in wants]
    return document


def text_of(document: dict[str, Any]) -> str:
    return " ".join(render(sweep_document(document), "table").split())


def test_losses_at_the_common_rate_and_at_each_arms_own() -> None:
    document = tune_document({"plain": bowl(4), "mixing": bowl(0, 1.95)})
    said = text_of(document)
    assert "mixing against plain: -0.2100 nats at the common rate 0.002, -0.0500 nats at each arm's own." in said
    assert "The best learning rate of mixing is 0.002, of plain 0.004: × 0.5;" in said
    assert "with fewer than 3 seeds nothing says whether more than noise" in said
    assert said.count("both sides of it are worse") == 2
    [plain, mixing] = json.loads(render(sweep_document(document), "json"))["tuned"]
    assert (plain["best"]["learning_rate"], plain["loss"], plain["common_loss"]) == (0.004, 2.0, 2.16)
    assert (mixing["best"]["learning_rate"], mixing["loss"], mixing["common_loss"]) == (0.002, 1.95, 1.95)


@pytest.mark.parametrize(
    ("place", "verdict"), [(3.0, "they differ, shown"), (0.2, "not shown to differ")], ids=["apart", "together"]
)
def test_several_seeds_say_whether_the_optima_differ(place: float, verdict: str) -> None:
    curves = {"plain": bowl(0, noise=0.3), "mixing": lambda trial, seed: bowl(place, noise=-0.2)(trial, seed)}
    said = text_of(tune_document(curves, seeds=4))
    assert f"fitted optima × {factor(0) * 2 ** ((place - 0.25) / 4):.3g} (" in said
    assert verdict in said


def test_an_edge_is_said_with_the_command_that_widens_the_grid() -> None:
    said = text_of(tune_document({"plain": bowl(0), "mixing": bowl(30)}))
    assert "mixing: not tuned: its lowest loss is at the highest learning rate tried, 0.01131;" in said
    assert "Widen: attnres tune tiny --name fabricated --points 7" in said
    assert "plain: tuned, learning rate 0.002, 7 trials" in said


def test_another_engine_is_judged_from_the_document_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    optuna = {"engine": "optuna", "trials": 12, "sampler_seed": 1000}
    document = tune_document({"plain": bowl(1), "mixing": bowl(30)}, seeds=3, **optuna)
    monkeypatch.setitem(sys.modules, "optuna", None)
    said = text_of(document)
    assert "plain: tuned, learning rate 0.00" in said
    assert "12 trials; both sides of it are worse" in said
    assert re.search(r"mixing: not tuned: its lowest loss is at the highest learning rate tried, 0\.01", said)
    assert "Widen, in a tune of its own: attnres tune tiny --name fabricated-wider --points 7" in said


def test_a_best_close_to_the_outermost_is_not_tuned() -> None:
    losses = {-6.0: 2.6, -4.0: 2.5, 0.0: 2.3, 1.0: 2.2, 3.0: 2.1, 5.0: 2.0, 5.5: 2.15}
    values = [float(f"{BASE * factor(rate):.4g}") for rate in losses]
    by_cell = {f"lr{value:g}": {"plain": loss} for value, loss in zip(values, losses.values(), strict=True)}
    document = grid_document(by_cell,
                             [{"learning_rate": value} for value in values], kind="tune", report="tune",
                             request={"points": [0.25, 0.5, 1.0, 2.0, 4.0], "weight_decay": False,
                                      "query_lr_factor": False, "horizon_fraction": 1.0, "engine": "optuna",
                                      "trials": 7, "sampler_seed": 0})  # fmt: skip
    for cell, rate in zip(document["cells"], losses, strict=True):
        cell["facts"]["trial"] = {"rate": rate, "refines": rate in (1.0, 5.0)}
    assert (
        "plain: not tuned: its lowest loss is at 0.004757, less than √2 from the highest learning rate tried, 0.005187;"
    ) in text_of(document)


def test_a_diverged_trial_is_an_infinite_loss_and_a_mark() -> None:
    steep: Curve = lambda trial, seed: math.inf if trial.rate > 0 else 2 - 0.01 * trial.rate  # noqa: E731
    document = tune_document({"plain": steep})
    tuning = Tuning.of(document)
    assert tuning.losses["plain"][Trial(4)] == math.inf
    assert tuning.outcome("plain").best == Trial(0)
    said = text_of(document)
    assert "diverged" in said
    assert "plain: tuned, learning rate 0.002" in said


def test_many_arms_stand_below_one_another() -> None:
    curves = {f"arm-{number}": bowl(number) for number in range(6)}
    document = sweep_document(tune_document(curves))
    rows = document.tables["trials"].rows
    assert len(rows) == 6 * 7
    assert [column.key for column in document.tables["trials"].columns] == ["arm", "rate", "loss"]
    few = sweep_document(tune_document({"plain": bowl(0), "mixing": bowl(4)})).tables["trials"]
    assert [column.key for column in few.columns] == ["rate", "loss_plain", "loss_mixing"]
