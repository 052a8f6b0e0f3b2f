"""What a study says of runs, and of its own power; and what happens without a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnres_cli.analysis.paired import paired_difference
from attnres_cli.analysis.power import pairs_needed, smallest_detectable
from attnres_cli.report.study import (
    StudyMark,
    label,
    power_of_plan,
    spread_of_group,
    study_of,
    study_of_group,
    why_exploratory,
)
from tests.fabricated_sweep import arms_document

MARK = StudyMark("s", "f" * 64, frozenset({"/plain/0", "/mixing/0"}), (0,), 1000, {"plain": 10, "mixing": 0},
                 {f"/{arm}/{seed}": arm for arm in ("plain", "mixing") for seed in (0, 1)})  # fmt: skip


def study_document(**changes: Any) -> dict[str, Any]:
    arms = [
        {"label": "plain", "tuning": {"tune": "t", "trials": 5, "seeds": 2}},
        {"label": "mixing", "tuning": {"trials": 0, "seeds": 0}},
    ]
    plan = {"seeds": [0], "horizon_tokens": 1000, "arms": arms}
    request = {"study": {"name": "s", "hash": "f" * 64, "plan": plan, **changes}}
    return arms_document({"plain": [2.0, 2.1], "mixing": [1.9, 2.2]}, request=request)


def test_the_runs_with_a_seed_of_the_plan_were_planned() -> None:
    assert study_of(study_document()) == MARK
    assert MARK.title == "study s (plan ffffffffffff)"
    assert label(MARK, "/mixing/0") == "planned"
    assert label(MARK, "/mixing/1") == "exploratory"


@pytest.mark.parametrize("changes", [{"hash": None, "plan": {}}, {"plan": None}, {"plan": {"seeds": 3}}])
def test_a_document_that_says_anything_else_is_no_study(changes: dict[str, Any]) -> None:
    assert study_of(study_document(**changes)) is None
    assert study_of(arms_document({"plain": [2.0]})) is None


def test_a_folder_without_a_readable_plan_is_no_study(tmp_path: Path) -> None:
    assert study_of_group(tmp_path) is None
    (tmp_path / "sweep.json").write_text("{")
    assert study_of_group(tmp_path) is None
    (tmp_path / "sweep.json").write_text(json.dumps(study_document()))
    assert study_of_group(tmp_path) == MARK


@pytest.mark.parametrize(
    ("train", "reason"),
    [
        ({"seed": 3, "horizon_tokens": 1000}, "seed 3 is not in the plan"),
        ({"seed": 0, "horizon_tokens": 2000}, "it trains for 2,000 tokens, the plan for 1,000"),
        ({"seed": 3, "horizon_tokens": 1}, "seed 3 is not in the plan; it trains for 1 tokens, the plan for 1,000"),
        ({"seed": 0, "horizon_tokens": 1000}, "no arm of the plan has these settings"),
    ],
)
def test_why_a_run_is_exploratory(train: dict[str, int], reason: str) -> None:
    assert why_exploratory(MARK, {"train": train}) == reason


def test_power_is_that_of_the_corrected_test() -> None:
    one, three = (power_of_plan(0.004, 5, tested, 0.005) for tested in (1, 3))
    assert one.smallest_shown == smallest_detectable(0.004, 5)
    assert one.seeds_needed == pairs_needed(0.005, 0.004)
    assert three.smallest_shown == smallest_detectable(0.004, 5, alpha=0.05 / 3)
    assert three.seeds_needed == pairs_needed(0.005, 0.004, alpha=0.05 / 3)
    assert not power_of_plan(0.004, one.seeds_needed - 1, 1, 0.005).is_enough
    assert power_of_plan(0.004, one.seeds_needed, 1, 0.005).is_enough
    hopeless = power_of_plan(1000.0, 5, 1, 0.005)
    assert (hopeless.seeds_needed, hopeless.is_enough) == (None, False)


def test_the_spread_of_a_group_is_that_of_its_worst_pairs() -> None:
    losses = {"plain": [2.0, 2.1, 2.3], "close": [1.9, 2.0, 2.21], "far": [1.5, 2.3, 2.2], "few": [1.0, "failed", 2.0]}
    expected = paired_difference(losses["far"], losses["plain"]).standard_deviation  # type: ignore[arg-type]
    assert spread_of_group(arms_document(losses)) == expected  # type: ignore[arg-type]
    assert spread_of_group(arms_document({"plain": [2.0, 2.1], "close": [1.9, 2.2]})) is None


def test_adding_seeds_until_something_is_shown_finds_what_is_not_there() -> None:
    """docs/study.md: one study of six, from three seeds to ten with a look after each; with a plan, one of twenty."""
    from scipy.special import stdtr

    differences = np.random.default_rng(1).standard_normal((20_000, 10))
    shown = np.zeros(len(differences), dtype=bool)
    for n in range(3, 11):
        of_n = differences[:, :n]
        t = of_n.mean(axis=1) * np.sqrt(n) / of_n.std(axis=1, ddof=1)
        last = 2 * stdtr(n - 1, -np.abs(t)) < 0.05
        shown |= last
    assert shown.mean() == pytest.approx(1 / 6, abs=0.012)
    assert last.mean() == pytest.approx(0.05, abs=0.006)
