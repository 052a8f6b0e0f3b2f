"""From what a user types to the runs of a comparison."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnres_cli.errors import UserError
from attnres_cli.report.references import find_runs, in_order
from tests.fabricated_runs import BLOCK_SCHEME, RESOLVED, fabricate
from tests.report.groups import BASE, BLOCK, baseline, block, read


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """runs/single, and runs/study/ with two runs of each arm, the block runs first by name."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "runs"
    fabricate(root, "single")
    baseline(root / "study", 2)
    block(root / "study", [0.1, 0.1])
    return root


def found(root: Path, *refs: str) -> list[tuple[str, str | None]]:
    return [(each.run.name, each.group) for each in find_runs(refs, root)]


EVERYTHING = [(f"{name}-s{seed}", "study") for name in (BLOCK, BASE) for seed in (0, 1)]


@pytest.mark.parametrize("ref", ["study", "study/", "runs/study", "./runs/study"])
def test_a_folder_of_runs_means_all_of_them(root: Path, ref: str) -> None:
    assert found(root, ref) == EVERYTHING


def test_a_folder_means_broken_runs_too(root: Path) -> None:
    (root / "study" / f"{BASE}-s1" / "manifest.json").write_text("{")
    (root / "study" / f"{BASE}-s1" / "state.json").write_text("{")
    (root / "study" / "notes").mkdir()
    (root / "study" / "sweep.json").write_text("{}")
    assert found(root, "study") == EVERYTHING


def test_patterns_fit_names_and_paths(root: Path) -> None:
    assert found(root, "study/*") == [(name, "study/*") for name, _ in EVERYTHING]
    assert found(root, f"study/{BASE}*") == [(f"{BASE}-s{seed}", f"study/{BASE}*") for seed in (0, 1)]
    assert [name for name, _ in found(Path("elsewhere"), "runs/study/*-s0")] == [f"{BLOCK}-s0", f"{BASE}-s0"]
    with pytest.raises(UserError) as caught:
        found(root, "studdy/*")
    assert "No run fits 'studdy/*'" in caught.value.faults[0].what


def test_a_run_counts_once_however_often_it_is_meant(root: Path) -> None:
    assert found(root, "study", "study/*", f"study/{BASE}-s0") == EVERYTHING
    assert found(root, f"study/{BASE}-s1", "study")[0] == (f"{BASE}-s1", None)
    with pytest.raises(UserError) as caught:
        found(root, "single", "runs/single")
    assert "given twice" in caught.value.faults[0].what


def test_runs_are_found_as_everywhere(root: Path) -> None:
    assert found(root, "sing") == [("single", None)]
    with pytest.raises(UserError) as caught:
        found(root, "singel")
    assert caught.value.faults[0].nearest == "single"


def ordered(root: Path, *refs: str) -> list[str]:
    references = find_runs(refs, root)
    runs = read([each.run for each in references])
    return [runs[index].name for index in in_order(references, runs)]


def test_inside_a_group_runs_stand_as_they_began(root: Path) -> None:
    assert ordered(root, "study") == [f"{BASE}-s0", f"{BASE}-s1", f"{BLOCK}-s0", f"{BLOCK}-s1"]


def test_a_sweep_file_says_which_arm_is_first(root: Path) -> None:
    arms = [{"label": "x", "residual": residual} for residual in (BLOCK_SCHEME, RESOLVED["residual"])]
    (root / "study" / "sweep.json").write_text(json.dumps({"arms": arms}))
    assert ordered(root, "study") == [f"{BLOCK}-s0", f"{BLOCK}-s1", f"{BASE}-s0", f"{BASE}-s1"]


@pytest.mark.parametrize("content", ["{", "[]", '{"arms": 3}', '{"arms": [3]}', "{}"])
def test_a_sweep_file_that_says_nothing_breaks_nothing(root: Path, content: str) -> None:
    (root / "study" / "sweep.json").write_text(content)
    assert ordered(root, "study")[0] == f"{BASE}-s0"


def test_named_runs_and_groups_stand_as_they_were_named(root: Path) -> None:
    assert ordered(root, f"study/{BLOCK}-s1", "single", "study")[:3] == [f"{BLOCK}-s1", "single", f"{BASE}-s0"]
