"""`attnres compare` with some runs of a plan: what is left out is named, and costs what it would have cost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.runs.directory import RunDirectory
from tests.report.groups import BASE, BLOCK, FULL, NOT_SHOWN, SHOWN, baseline, block, full

BARELY = (0.004, 0.016, 0.011, 0.018, 0.0005)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def planned(folder: Path, runs: Sequence[RunDirectory], *, study: bool = False, **statuses: str) -> None:
    """Write the sweep file that planned these runs. statuses: by the name of a run with _ for -, one that has not
    finished."""
    residuals = {each.manifest()["scheme"]: each.resolved()["residual"] for each in runs}
    rows = [
        {
            "cell": "", "arm": each.manifest()["scheme"], "seed": each.manifest()["seed"], "folder": each.name,
            "digest": f"digest of {each.name}", "status": statuses.get(each.name.replace("-", "_"), "finished"),
        }
        for each in runs
    ]  # fmt: skip
    for each in runs:
        each.write_manifest({**each.manifest(), "preset_digest": f"digest of {each.name}"})
    seeds = sorted({row["seed"] for row in rows})
    arms = [{"label": label, "residual": residual} for label, residual in residuals.items()]
    plan = {"seeds": seeds, "horizon_tokens": 204800}
    plan["arms"] = [{"label": label, "tuning": {"trials": 0, "seeds": 1}} for label in residuals]
    (folder / "sweep.json").write_text(
        json.dumps(
            {
                "kind": "study" if study else "group", "arms": arms, "cells": [{"key": ""}], "runs": rows,
                "seeds": seeds, "planned_seeds": len(seeds),
                "request": {"study": {"name": "first", "hash": "ab" * 32, "plan": plan}} if study else {},
            }
        )
    )  # fmt: skip


def three_arms(root: Path, name: str, *, study: bool = False, better_by: Sequence[float] = SHOWN) -> None:
    folder = root / name
    planned(folder, [*baseline(folder), *block(folder, better_by), *full(folder, NOT_SHOWN)], study=study)


def compared(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["compare", *words, "--no-bench", "--json"]) == 0
    return {each["arm"]: each for each in json.loads(capsys.readouterr().out)["verdicts"]}


def text_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["compare", *words, "--no-bench"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(("study", "title"), [(True, "study first (plan abababababab)"), (False, "group some")])
def test_seeds_that_were_picked_are_exploratory(
    root: Path, capsys: pytest.CaptureFixture[str], study: bool, title: str
) -> None:
    three_arms(root, "some", study=study)
    reason = f"2 of 5 planned seeds of {title} are left out (3, 4)"
    found = compared(capsys, "some/*-s[012]")
    assert [each["exploratory_because"] for each in found.values()] == [[reason], [reason]]
    text = text_of(capsys, "some/*-s[012]")
    assert f"Exploratory: {reason}." in text
    assert f"exploratory: {BLOCK}, {FULL}" in text
    names = [f"some/{arm}-s{seed}" for arm in (BASE, BLOCK, FULL) for seed in range(3)]
    assert compared(capsys, *names)[BLOCK]["exploratory_because"] == [reason], "one by one they are no less chosen"


@pytest.mark.parametrize("study", [True, False])
def test_all_that_was_planned_is_no_choice(root: Path, capsys: pytest.CaptureFixture[str], study: bool) -> None:
    three_arms(root, "some", study=study)
    for words in (["some"], ["some/*"], [f"some/{BASE}*", f"some/{BLOCK}*", f"some/{FULL}*"]):
        found = compared(capsys, *words)
        assert [each["exploratory"] for each in found.values()] == [False, False]
        assert [(each["tested"], each["counted_in"]) for each in found.values()] == [(2, []), (2, [])]


@pytest.mark.parametrize("study", [True, False])
def test_an_arm_that_was_left_out_is_named_and_counts_in_the_correction(
    root: Path, capsys: pytest.CaptureFixture[str], study: bool
) -> None:
    three_arms(root, "some", study=study, better_by=BARELY)
    whole = compared(capsys, "some")[BLOCK]
    found = compared(capsys, f"some/{BASE}*", f"some/{BLOCK}*")[BLOCK]
    assert found["difference"]["p"] < 0.05, "alone it would be shown"
    assert (found["outcome"], found["p_holm"]) == ("not shown", pytest.approx(whole["p_holm"]))
    assert (found["tested"], found["counted_in"]) == (2, [f"{FULL} (left out)"])
    [reason] = found["exploratory_because"]
    assert reason.startswith("1 of 3 planned arms of ")
    assert reason.endswith(f" is left out ({FULL})")
    text = text_of(capsys, f"some/{BASE}*", f"some/{BLOCK}*")
    assert f"after Holm's correction over 2 arms, counting {FULL} (left out)" in text
    assert f"p Holm counts in: {FULL} (left out)" in text


def test_an_arm_with_too_few_of_its_runs_counts_too(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    three_arms(root, "some", better_by=BARELY)
    found = compared(capsys, f"some/{BASE}*", f"some/{BLOCK}*", f"some/{FULL}-s0")
    assert found[FULL]["outcome"] == "too few"
    assert (found[BLOCK]["outcome"], found[BLOCK]["counted_in"]) == ("not shown", [f"{FULL} (runs left out)"])


def test_two_single_runs_of_a_plan_say_what_they_are(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    three_arms(root, "some")
    text = text_of(capsys, f"some/{BASE}-s0", f"some/{BLOCK}-s0")
    assert "4 of 5 planned seeds of group some are left out (1, 2, 3, 4)" in text
    assert f"1 of 3 planned arms of group some is left out ({FULL})" in text


def test_a_diverged_run_that_was_deleted_is_missed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = root / "some"
    planned(folder, [*baseline(folder), *block(folder)], attnres_block_s4="diverged")
    shutil.rmtree(folder / f"{BLOCK}-s4")
    [reason] = compared(capsys, "some")[BLOCK]["exploratory_because"]
    assert reason == "1 of 5 planned seeds of group some is left out (4)"


def test_a_run_that_failed_before_it_began_is_nobodys_choice(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = root / "some"
    planned(folder, [*baseline(folder), *block(folder)], attnres_block_s4="failed")
    shutil.rmtree(folder / f"{BLOCK}-s4")
    assert compared(capsys, "some")[BLOCK]["exploratory"] is False


# ------------------------------------------------------------------ waiting


def test_an_arm_that_is_waited_for_counts_in_the_correction(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = root / "some"
    late = {f"attnres_full_s{seed}": "planned" for seed in range(5)}
    planned(folder, [*baseline(folder), *block(folder, BARELY), *full(folder)], **late)
    for seed in range(5):
        shutil.rmtree(folder / f"{FULL}-s{seed}")
    found = compared(capsys, "some")[BLOCK]
    assert (found["outcome"], found["tested"]) == ("not shown", 2)
    assert found["counted_in"] == [f"{FULL} (waited for)"]
    assert found["exploratory"] is False, "nobody chose"


def test_an_arm_that_runs_counts_in_the_correction(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without any sweep file, too."""
    folder = root / "some"
    baseline(folder)
    block(folder, BARELY)
    full(folder, NOT_SHOWN[:4])
    full(folder, [0.0], seeds=[4], until_step=40, status="running")
    found = compared(capsys, "some")
    assert (found[FULL]["outcome"], found[FULL]["p_holm"]) == ("unfinished", None)
    assert (found[BLOCK]["outcome"], found[BLOCK]["counted_in"]) == ("not shown", [f"{FULL} (waited for)"])


def test_an_interrupted_run_of_a_plan_is_waited_for(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = root / "some"
    runs = [*baseline(folder), *block(folder, SHOWN[:4])]
    runs += block(folder, [0.0], seeds=[4], until_step=40, status="interrupted")
    planned(folder, runs, attnres_block_s4="interrupted")
    found = compared(capsys, "some")[BLOCK]
    assert found["outcome"] == "unfinished"
    assert f"{BLOCK}-s4 can go on (interrupted at step 40 of 100)" in found["sentence"]
    named = [f"some/{arm}-s{seed}" for arm in (BASE, BLOCK) for seed in range(4)]
    given_up = compared(capsys, *named)[BLOCK]
    assert given_up["outcome"] == "better"
    assert given_up["exploratory_because"] == ["1 of 5 planned seeds of group some is left out (4)"]


# ------------------------------------------------------------------ one model, two names


def test_two_arms_that_are_one_model_are_said_to_be(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = root / "same"
    baseline(folder)
    block(folder)
    full(folder, SHOWN)
    said = f"{FULL} has the losses of {BLOCK} to the last bit in all 5 pairs: the same model here"
    text = text_of(capsys, "same")
    assert text.count(said) == 2, "beside the arms and with the verdict"
    assert f"Verdict\n  {BLOCK}: shown" in text
    found = compared(capsys, "same")
    assert (found[BLOCK]["remarks"], found[FULL]["remarks"]) == ([], [f"{said}."])
    singles = text_of(capsys, *(f"same/{arm}-s0" for arm in (BASE, BLOCK, FULL)))
    assert "C has the losses of B to the last bit in its seed: the same model here" in singles


def test_arms_that_differ_in_one_seed_are_not(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = root / "near"
    baseline(folder)
    block(folder)
    full(folder, [*SHOWN[:4], SHOWN[4] + 1e-12])
    assert "the same model here" not in text_of(capsys, "near")
