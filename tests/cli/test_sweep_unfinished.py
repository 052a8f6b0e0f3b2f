"""`attnres sweep show` before the end: numbers, and no verdict that a planned run can still change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from tests import fabricated_sweep
from tests.report.groups import BASE, BLOCK, SHOWN, baseline, block

Losses = list[float | str | None]
STATUSES = (None, "interrupted", "running")
NAME = "early"
# "a" is below "plain" by 0.1 in every seed, give or take a thousandth.
PLAIN: Losses = [2.0, 2.1, 1.9, 2.05, 1.95]
A: Losses = [1.9, 2.001, 1.799, 1.95, 1.85]
B: Losses = [2.001, 2.099, 1.9, 2.05, 1.951]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def but_last(losses: Losses, last: str | None) -> Losses:
    return [*losses[:-1], last]


def show(capsys: pytest.CaptureFixture[str], document: Mapping[str, Any], *words: str) -> str:
    folder = Path("runs", NAME)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sweep.json").write_text(json.dumps(document))
    assert run(["sweep", "show", NAME, *words]) == 0
    return capsys.readouterr().out


def shown_json(capsys: pytest.CaptureFixture[str], document: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(show(capsys, document, "--json"))
    return found


def group(**losses: Losses) -> dict[str, Any]:
    return fabricated_sweep.arms_document(losses, kind="group", report="group", status="interrupted")


def cells_of(losses: Mapping[str, Mapping[str, Losses]], axis: str, kind: str) -> dict[str, Any]:
    places = [{axis: float(key) if axis == "horizon" else int(key)} for key in losses]
    document = fabricated_sweep.grid_document(losses, places, kind=kind, report=kind, status="interrupted")
    for cell in document["cells"]:
        cell["facts"]["tokens"] = round(512_000 * float(cell["key"]))
    return document


# ------------------------------------------------------------------ arms


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("late", ["plain", "a"])
def test_an_arm_that_waits_for_a_run_is_unfinished(
    capsys: pytest.CaptureFixture[str], late: str, status: str | None
) -> None:
    losses = {"plain": PLAIN, "a": A}
    document = group(**{**losses, late: but_last(losses[late], status)})
    text = show(capsys, document)
    assert "against plain, unfinished (…), no verdict yet: a." in text
    assert "… -0.1000" in text
    assert f"…: unfinished. 1 of 10 runs are still to come, of {late}: no verdict" in text
    for absent in ("lower", "★ "):
        assert absent not in text.replace("★ and shown", "")
    [difference] = shown_json(capsys, document)["differences"]
    assert (difference["outcome"], difference["p_holm"], difference["pairs"]) == ("unfinished", None, 4)


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_a_lost_run_is_not_waited_for(capsys: pytest.CaptureFixture[str], status: str) -> None:
    text = show(capsys, group(plain=but_last(PLAIN, status), a=A))
    assert "against plain, lower: a." in text
    assert "unfinished" not in text


def test_a_finished_group_says_nothing_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    text = show(capsys, group(plain=PLAIN, a=A, b=B))
    assert "against plain, lower: a; not shown (~): b." in text
    assert "★ 1.9000" in text
    assert "…" not in text


def test_an_arm_that_has_not_begun_is_named_and_counts_in_the_correction(capsys: pytest.CaptureFixture[str]) -> None:
    """p of "edge" is 0.035 alone: what the last arm would take away is not shown before it is there, either."""
    edge: Losses = [1.96, 2.012, 1.885, 1.95, 1.925]
    alone = shown_json(capsys, group(plain=PLAIN, edge=edge))["differences"][0]
    assert (alone["outcome"], 0.025 < alone["p_holm"] < 0.05) == ("lower", True)
    nothing: Losses = [None] * 5
    document = group(plain=PLAIN, edge=edge, late=nothing)
    [waits] = shown_json(capsys, document)["differences"]
    assert (waits["arm"], waits["outcome"]) == ("edge", "not shown")
    assert waits["p_holm"] == pytest.approx(2 * alone["p_holm"])
    text = show(capsys, document)
    assert "against plain, not shown (~): edge; unfinished (…), no verdict yet: late." in text
    assert "5 of 15 runs are still to come, of late" in text
    done = shown_json(capsys, group(plain=PLAIN, edge=edge, late=B))["differences"]
    assert [each["outcome"] for each in done] == ["not shown", "not shown"]


def test_the_lowest_gets_no_star_while_an_arm_of_its_cell_waits(capsys: pytest.CaptureFixture[str]) -> None:
    text = show(capsys, group(plain=PLAIN, a=A, late=but_last(B, None)))
    assert "↓ 1.9000" in text
    assert "★ 1.9000" not in text
    assert "against plain, lower: a; unfinished (…), no verdict yet: late." in text


def test_the_page_of_the_sweep_claims_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("runs", NAME)
    baseline(folder)
    block(folder, SHOWN[:4])
    document = fabricated_sweep.arms_document({BASE: PLAIN, BLOCK: but_last(A, None)}, kind="group", report="group")
    show(capsys, document)
    assert run(["report", NAME, "--no-bench", "-o", "page.html"]) == 0
    page = Path("page.html").read_text()
    assert f"against {BASE}, unfinished (…), no verdict yet: {BLOCK}." in page
    assert f"against {BASE}, lower" not in page


# ------------------------------------------------------------------ other kinds


def test_a_cell_waits_for_its_own_runs_alone(capsys: pytest.CaptureFixture[str]) -> None:
    losses = {"2": {"plain": PLAIN, "a": A}, "4": {"plain": but_last(PLAIN, None), "a": A}}
    document = cells_of(losses, "transformer_blocks", "depth")
    text = show(capsys, document)
    assert "2: against plain, lower: a." in text
    assert "4: against plain, unfinished (…), no verdict yet: a." in text
    outcomes = {each["arm"]: each["outcome"] for each in shown_json(capsys, document)["steps"]}
    assert outcomes == {"plain": "unfinished", "a": "not shown"}


def test_a_horizon_ladder_and_its_trend_wait(capsys: pytest.CaptureFixture[str]) -> None:
    rungs = {"0.5": {"plain": PLAIN, "a": A}, "1": {"plain": PLAIN, "a": but_last(A, "interrupted")}}
    document = cells_of({**rungs, "2": {"plain": PLAIN, "a": A}}, "horizon", "horizon")
    text = " ".join(show(capsys, document).split())
    assert "a at 1 × the tokens: Δ -0.1000" in text
    assert text.count("unfinished (…), no verdict yet.") == 2
    outcomes = {each["cell"]: each["outcome"] for each in shown_json(capsys, document)["differences"]}
    assert outcomes == {"0.5": "lower", "1": "unfinished", "2": "lower"}


def grid(last: str | None | float) -> dict[str, Any]:
    """Four shapes with their minimum at the second one; "mixing" has its own at the first. last: the last seed of the
    fourth shape."""
    by_ratio = {8.0: (2.1, 1.6), 16.0: (1.8, 1.7), 32.0: (2.2, 2.1), 64.0: (2.9, 2.8)}
    losses = {}
    for ratio, (plain, mixing) in by_ratio.items():
        wiggled = [mixing + 0.001 * seed for seed in range(4)]
        losses[None, ratio] = ([plain] * 4, [*wiggled[:-1], last if ratio == 64.0 else wiggled[-1]])
    return fabricated_sweep.sweep_document(losses, report="depth-width", status="interrupted")


def test_a_grid_marks_no_minimum_before_its_last_cell(capsys: pytest.CaptureFixture[str]) -> None:
    assert "★ " in show(capsys, grid(2.803))
    text = show(capsys, grid(None))
    assert "★" not in text
    assert "unfinished (…), so not held against its neighbours yet" in text
    assert "moved from plain to mixing cannot be said: unfinished (…)." in text
    assert "lower than its neighbours" not in text
    outcomes = {each["cell"]: each["outcome"] for each in shown_json(capsys, grid(None))["differences"]}
    assert outcomes == {"r8": "lower", "r16": "lower", "r32": "lower", "r64": "unfinished"}
