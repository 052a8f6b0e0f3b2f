"""A run directory has its name when it is whole, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnres_cli.errors import UserError
from attnres_cli.runs import creation
from attnres_cli.runs.creation import Start
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.lookup import list_runs

START = Start("# mine\n", "[model]\nd_model = 64\n", "cpu-tiny", "attnres train cpu-tiny")


def test_what_a_run_begins_from_is_there_from_its_first_moment(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "mine", start=START)
    assert (run.preset_toml.read_text(), run.resolved()) == ("# mine\n", {"model": {"d_model": 64}})
    state = run.read_state()
    assert (state["preset_name"], state["command"]) == ("cpu-tiny", "attnres train cpu-tiny")
    assert state["resume"] == f"attnres train --resume {run.path}"
    assert (run.status, run.never_began) == ("running", True)
    run.append_metric({"kind": "event", "step": 0, "event": "started"})
    assert not run.never_began


@pytest.mark.parametrize("function", ["write_whole", "write_json", "_renamed"])
def test_stopped_while_it_is_made_it_leaves_its_name_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """Not even the cleaning up takes place, as in a process that is killed."""

    def stops(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(creation, function, stops)
        patched.setattr(creation.shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            RunDirectory.create(tmp_path, "stem", "mine", start=START)
    assert list_runs(tmp_path) == []
    assert all(path.name.startswith(".") for path in tmp_path.iterdir())
    assert RunDirectory.create(tmp_path, "stem", "mine", start=START).is_run


@pytest.mark.parametrize("taken", ["folder", "file", "link"])
def test_a_name_that_is_taken_stays_what_it_is(tmp_path: Path, taken: str) -> None:
    path = tmp_path / "mine"
    if taken == "folder":
        path.mkdir()
    elif taken == "file":
        path.write_text("text")
    else:
        path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="There is already a run called 'mine'"):
        RunDirectory.create(tmp_path, "stem", "mine")
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
