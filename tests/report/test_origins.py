"""What a study, a tune and the overlays that it left say of the runs of a comparison."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.report.compare import compare_document
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.document import render
from attnres_cli.report.origins import TRIALS, read_origins
from attnres_cli.report.paired_verdicts import PairedVerdict, paired_verdicts
from attnres_cli.report.rates import rates
from attnres_cli.report.verdicts import verdicts
from attnres_cli.runs.directory import RunDirectory
from tests.report.groups import BASE, BLOCK, as_json, baseline, block, comparison, planned_by_a_study, read

SLOWER = {"train.learning_rate": 0.001}


def with_origins(runs: list[RunDirectory]) -> Comparison:
    found = comparison(runs, slower=None)
    return replace(found, origins=read_origins(found.runs))


def single(*runs: RunDirectory) -> Comparison:
    found = Comparison.of_runs(read(runs))
    return replace(found, origins=read_origins(found.runs))


def study(root: Path, seeds: range, tuning: tuple[int, int] = (0, 0), **how: Any) -> list[RunDirectory]:
    """Five pairs, of which the study planned those with these seeds."""
    runs = [*baseline(root), *block(root, **how)]
    planned_by_a_study(root, runs, seeds=seeds, tuning=tuning)
    return runs


def judge(found: Comparison) -> PairedVerdict:
    [verdict] = paired_verdicts(found)
    return verdict


def shown(found: Comparison) -> str:
    return render(compare_document(found), "table")


# ------------------------------------------------------------------ a study


def test_a_verdict_on_planned_runs_names_the_plan_and_stands(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path), *block(tmp_path)]
    hash_ = planned_by_a_study(tmp_path, runs, seeds=range(5))
    found = with_origins(runs)
    assert (judge(found).outcome, judge(found).exploratory) == ("better", ())
    title = f"study first (plan {hash_[:12]})"
    text = shown(found)
    assert f"Runs of {title}." in text
    assert "xploratory" not in text
    document = as_json(found)
    assert document["tables"]["verdict"]["notes"][0] == title
    assert document["studies"] == [{"name": "first", "hash": hash_}]
    assert document["verdicts"][0]["exploratory"] is False


def test_a_pair_beyond_the_plan_makes_the_verdict_exploratory(tmp_path: Path) -> None:
    found = with_origins(study(tmp_path, range(4)))
    verdict = judge(found)
    assert verdict.outcome == "better"
    [reason] = verdict.exploratory
    assert reason.startswith(f"{BASE}-s4, {BLOCK}-s4: beyond study first (plan ")
    assert reason.endswith("): seed 4 is not in the plan")
    assert f"Exploratory: {reason}." in verdict.sentence
    document = as_json(found)
    assert (document["verdicts"][0]["exploratory"], document["verdicts"][0]["exploratory_because"]) == (True, [reason])
    assert f"exploratory: {BLOCK}" in document["tables"]["verdict"]["notes"]


def test_runs_of_another_folder_are_beyond_the_plan(tmp_path: Path) -> None:
    base = baseline(tmp_path / "a")
    planned = block(tmp_path / "a")
    planned_by_a_study(tmp_path / "a", [*base, *planned], seeds=range(5))
    other = block(tmp_path / "b")
    [reason] = judge(with_origins([*base, *other])).exploratory
    assert reason.startswith(f"{BLOCK}-s0, {BLOCK}-s1, ")
    assert reason.endswith("no arm of the plan has these settings")
    assert BASE not in reason


def test_single_runs_of_a_study_are_marked_too(tmp_path: Path) -> None:
    runs = study(tmp_path, range(4))
    planned, beyond = single(runs[0], runs[5]), single(runs[4], runs[9])
    [left_out] = verdicts(planned)[0].exploratory
    assert left_out.startswith("3 of 4 planned seeds of study first (plan ")
    assert "not in the plan" not in left_out
    assert "Runs of study first (plan " in shown(planned)
    assert "Exploratory: " in verdicts(beyond)[0].sentence
    assert as_json(beyond)["verdicts"][0]["exploratory"] is True


def test_without_a_study_nothing_is_said_of_one(tmp_path: Path) -> None:
    found = with_origins([*baseline(tmp_path), *block(tmp_path)])
    assert found.origins == read_origins([])
    assert "study" not in shown(found)
    assert as_json(found)["studies"] == []


# ------------------------------------------------------------------ were the arms tuned


@pytest.mark.parametrize(
    ("tuning", "said"),
    [
        ((7, 7), "rates: common (0.003); prenorm tuned by 7 runs; attnres-block tuned by 7 runs"),
        ((0, 0), "rates: common (0.003); no arm is tuned; a common rate need not be every arm's best one"),
        (
            (0, 1),
            "rates: common (0.003); prenorm not tuned; attnres-block tuned by 1 run; a common rate need not be every "
            "arm's best one",
        ),
    ],
)
def test_who_chose_a_common_rate(tmp_path: Path, tuning: tuple[int, int], said: str) -> None:
    found = with_origins(study(tmp_path, range(5), tuning))
    assert rates(found) == [said]
    assert [arm["tuning_runs"] for arm in as_json(found)["arms"]] == list(tuning)


@pytest.mark.parametrize(
    ("tuning", "said", "caveat"),
    [
        (
            (7, 7),
            f"rates: {BASE} 0.003 (tuned by 7 runs); {BLOCK} 0.001 (tuned by 7 runs)",
            "Each arm has its own train.learning_rate (0.003 / 0.001), which 7 tuning runs chose.",
        ),
        (
            (7, 3),
            f"rates: {BASE} 0.003 (tuned by 7 runs); {BLOCK} 0.001 (tuned by 3 runs)",
            "Fair only if each arm has its own best value of train.learning_rate (0.003 / 0.001); 7 runs chose that of "
            f"{BASE}, 3 runs chose that of {BLOCK}.",
        ),
        (
            (0, 0),
            f"rates: {BASE} 0.003 (not tuned); {BLOCK} 0.001 (not tuned)",
            "Fair only if each arm has its own best value of train.learning_rate (0.003 / 0.001); no run chose that of "
            f"{BASE}, no run chose that of {BLOCK}.",
        ),
    ],
)
def test_who_chose_different_rates(tmp_path: Path, tuning: tuple[int, int], said: str, caveat: str) -> None:
    found = with_origins(study(tmp_path, range(5), tuning, change=SLOWER))
    assert rates(found) == [said]
    assert judge(found).caveats == (caveat,)
    lettered = verdicts(single(*(RunDirectory(arm.runs[0].path) for arm in found.arms)))[0].sentence
    for arm in (BASE, BLOCK):
        caveat = caveat.replace(arm, f"{arm}-s0")
    assert lettered.endswith(caveat.replace("ach arm", "ach run"))


@pytest.mark.parametrize(
    ("options", "choice"),
    [
        (f"--overlay tuned-cpu-tiny-{BLOCK}", f" (tuned, overlay tuned-cpu-tiny-{BLOCK})"),
        (f"--overlay=./presets/overlays/tuned-x-{BLOCK}.toml", f" (tuned, overlay tuned-x-{BLOCK})"),
        (f"--overlay tuned-cpu-tiny-{BASE}", ""),  # the rate of another arm
        ("--overlay tuned-x-paper-full-sigmoid", " (tuned, overlay tuned-x-paper-full-sigmoid)"),  # an arm of its own
        (f"--overlay tuned-x-paper-full-sigmoid --residual {BLOCK}", ""),
        ("--overlay tuned-x-paper-full-sigmoid --set residual.gain=false", ""),
        (f"--overlay tuned-x-{BLOCK} --set train.learning_rate=1", ""),
        (f"--overlay tuned-x-{BLOCK} --set=train.learning_rate=1", ""),
        ("--overlay mine", ""),
        ("--overlay 'open", ""),
    ],
)
def test_the_overlay_of_a_tune_is_named(tmp_path: Path, options: str, choice: str) -> None:
    command = {"command": f"attnres train cpu-tiny {options}"}
    found = with_origins([*baseline(tmp_path), *block(tmp_path, change=SLOWER, manifest=command)])
    assert rates(found) == [f"rates: {BASE} 0.003; {BLOCK} 0.001{choice}"]


# ------------------------------------------------------------------ a tune


def test_no_verdict_rests_on_the_trials_of_a_tune(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path), *block(tmp_path)]
    (tmp_path / "sweep.json").write_text(json.dumps({"kind": "tune"}))
    found = with_origins(runs)
    verdict = judge(found)
    assert (verdict.outcome, verdict.reasons, verdict.to_dict()["kind"]) == ("trials", (TRIALS,), "no verdict")
    assert verdict.p_holm is None
    text = shown(found)
    assert "NO VERDICT" in text
    assert "these runs chose learning rates; no verdict rests on them" in text
    [lettered] = verdicts(single(runs[0], runs[5]))
    assert (lettered.outcome, lettered.reasons, lettered.delta_nats) == ("refused", (TRIALS,), None)


def test_one_trial_among_the_pairs_is_enough(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path / "a", 4), *block(tmp_path / "a")]
    trial = baseline(tmp_path / "b", seeds=[4])
    (tmp_path / "b" / "sweep.json").write_text(json.dumps({"kind": "tune"}))
    assert judge(with_origins([*runs, *trial])).outcome == "trials"


@pytest.mark.parametrize("label", ["baseline", "arm"])
def test_no_verdict_rests_on_a_seed_that_chose_the_rate(tmp_path: Path, label: str) -> None:
    """Trained again from the tuned overlay, with the very seed that had found its rate the best."""
    tuned = {"train.tuning_seeds": [2, 1000]}
    runs = [
        *baseline(tmp_path, change=tuned if label == "baseline" else {}),
        *block(tmp_path, change=tuned if label == "arm" else {}),
    ]
    verdict = judge(with_origins(runs))
    reason = "seed 2 chose the learning rate of these runs; no verdict rests on that"
    assert (verdict.outcome, verdict.reasons) == ("trials", (reason,))
    [alone] = verdicts(single(runs[2], runs[7]))
    assert (alone.outcome, alone.reasons) == ("refused", (reason,))
    assert verdicts(single(runs[0], runs[5]))[0].outcome == "lower"  # two seeds that chose nothing


def test_another_kind_of_sweep_has_verdicts(tmp_path: Path) -> None:
    runs = [*baseline(tmp_path), *block(tmp_path)]
    (tmp_path / "sweep.json").write_text(json.dumps({"kind": "group"}))
    assert judge(with_origins(runs)).outcome == "better"
