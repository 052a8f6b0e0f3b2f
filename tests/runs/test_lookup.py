"""What a user types, and the run it means."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnres_cli.errors import UserError
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.lookup import find_run, list_runs, name_below, run_names


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    for name in ("cpu-tiny-prenorm-1", "cpu-tiny-prenorm-2", "cpu-tiny-block-1", "cpu"):
        RunDirectory.create(root, "stem", name)
    RunDirectory.create(root / "group", "stem", "inner")
    (root / "notes").mkdir()
    (root / "notes" / "todo.txt").write_text("no run")
    (root / ".bench").mkdir()
    (root / "file").write_text("no folder")
    return root


def test_all_runs_are_listed_and_nothing_else(root: Path) -> None:
    expected = ["cpu", "cpu-tiny-block-1", "cpu-tiny-prenorm-1", "cpu-tiny-prenorm-2", "group/inner"]
    assert [name_below(run, root) for run in list_runs(root)] == expected
    assert run_names(root) == expected


def test_an_absent_root_holds_no_runs(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "none") == []
    assert run_names(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        ("cpu-tiny-block-1", "cpu-tiny-block-1"),
        ("cpu-tiny-b", "cpu-tiny-block-1"),
        ("cpu", "cpu"),  # an exact name wins over being the beginning of others
        ("group/inner", "inner"),
        ("group/in", "inner"),
        ("inn", "inner"),
    ],
)
def test_names_and_unique_beginnings(root: Path, ref: str, name: str) -> None:
    assert find_run(ref, root).name == name


@pytest.mark.parametrize("ref", ["ab12", "…ab12", "030405-ab12"])
def test_a_unique_end_of_a_name_is_enough(root: Path, ref: str) -> None:
    RunDirectory.create(root / "group", "stem", "cpu-tiny-prenorm-s0-20260102-030405-ab12")
    assert find_run(ref, root).name.endswith("-ab12")
    with pytest.raises(UserError):  # an end begins after a hyphen
        find_run("b12", root)
    RunDirectory.create(root, "stem", "cpu-tiny-block-s0-20260102-030405-ab12")
    with pytest.raises(UserError) as caught:
        find_run(ref, root)
    assert "is the end of 2 runs" in str(caught.value)


def test_paths_work_from_anywhere(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = RunDirectory.create(tmp_path / "other", "stem", "apart")
    monkeypatch.chdir(tmp_path)
    assert find_run("other/apart", root) == elsewhere
    assert find_run(elsewhere.path, root) == elsewhere
    assert find_run("runs/cpu/", root).name == "cpu"
    assert name_below(elsewhere, root) == str(elsewhere.path)


def test_a_name_below_the_root_wins_over_a_folder_of_the_same_name_here(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = root.parent
    RunDirectory.create(here, "stem", "cpu")
    monkeypatch.chdir(here)
    assert find_run("cpu", root).path == root / "cpu"


def test_an_ambiguous_beginning_names_the_runs(root: Path) -> None:
    with pytest.raises(UserError) as caught:
        find_run("cpu-tiny-prenorm", root)
    assert "beginning of 2 runs" in str(caught.value)
    assert caught.value.faults[0].expected == "one of cpu-tiny-prenorm-1, cpu-tiny-prenorm-2"


def test_a_misspelt_name_gets_the_nearest(root: Path) -> None:
    with pytest.raises(UserError) as caught:
        find_run("cpu-tiny-blok-1", root)
    assert caught.value.faults[0].nearest == "cpu-tiny-block-1"


def test_without_runs_the_error_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        find_run("any", tmp_path / "runs")
    assert "there is no folder" in (caught.value.faults[0].expected or "")
    assert (caught.value.faults[0].hint or "").startswith("attnres train")
    (tmp_path / "runs").mkdir()
    with pytest.raises(UserError) as caught:
        find_run("any", tmp_path / "runs")
    assert "there are none" in (caught.value.faults[0].expected or "")


@pytest.mark.parametrize("ref", ["notes", "", ".", " "])
def test_a_folder_that_is_no_run_is_refused(root: Path, ref: str) -> None:
    with pytest.raises(UserError):
        find_run(ref, root)


def test_a_run_without_a_manifest_or_with_a_broken_one_is_still_found(root: Path) -> None:
    (root / "cpu" / "manifest.json").write_text("{")
    assert find_run("cpu", root).name == "cpu"


def test_a_long_list_in_an_error_is_shortened(tmp_path: Path) -> None:
    for number in range(12):
        RunDirectory.create(tmp_path, "stem", f"run-{number:02}")
    with pytest.raises(UserError) as caught:
        find_run("run", tmp_path)
    assert (caught.value.faults[0].expected or "").endswith("run-07 and 4 more")
