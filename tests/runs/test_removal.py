"""Only run directories can be removed, and never a living one."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnres_cli.errors import UserError
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.removal import check_removable, remove_run, size_bytes, why_not
from tests.runs.test_process import dead_pid


def ended(root: Path, name: str) -> RunDirectory:
    run = RunDirectory.create(root, "stem", name)
    run.write_state(status="finished")
    return run


def test_a_finished_run_is_removed_with_everything_in_it(tmp_path: Path) -> None:
    run = ended(tmp_path, "old")
    (run.checkpoints_folder / "step-000001").mkdir()
    (run.checkpoints_folder / "step-000001" / "model.safetensors").write_bytes(b"x" * 5000)
    assert size_bytes(run.path) > 5000
    remove_run(run)
    assert list(tmp_path.iterdir()) == []


def test_a_running_run_is_refused(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "alive")
    with pytest.raises(UserError, match="is running"):
        remove_run(run)
    assert run.is_run


def test_a_run_whose_process_died_can_be_removed(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "dead")
    run.write_state(pid=dead_pid())
    remove_run(run)
    assert not run.path.exists()


def test_a_silent_run_whose_process_exists_is_refused(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "suspended")
    run.write_state(heartbeat=0.0)
    assert run.status == "stale"
    assert "still exists" in (why_not(run) or "")


@pytest.mark.parametrize("kind", ["empty", "files", "state of something else", "link"])
def test_what_is_no_run_directory_stays(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "folder"
    if kind == "link":
        folder.symlink_to(ended(tmp_path, "target").path)
    else:
        folder.mkdir()
        if kind == "files":
            (folder / "thesis.tex").write_text("years of work")
        if kind == "state of something else":
            (folder / "state.json").write_text('{"status": "finished"}')
            (folder / "manifest.json").write_text('{"schema": "other/1"}')
    with pytest.raises(UserError, match="no run directory"):
        remove_run(RunDirectory(folder))
    assert folder.exists()


def test_every_reason_is_given_at_once(tmp_path: Path) -> None:
    runs = [RunDirectory.create(tmp_path, "stem", name) for name in ("a", "b")]
    with pytest.raises(UserError) as caught:
        check_removable([*runs, ended(tmp_path, "c")])
    assert len(caught.value.faults) == 2
