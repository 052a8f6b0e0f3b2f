"""A run directory is created once, filled file by file, and read at any moment."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import attnres_cli
from attnres_cli.errors import UserError
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.names import check_name
from attnres_cli.runs.state import UNREADABLE


def test_a_new_run_is_running_in_this_process(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "deep" / "runs", "cpu-tiny-prenorm-s0", None)
    assert run.is_run
    state = run.read_state()
    assert (state["status"], state["pid"], state["step"], state["error"]) == ("running", os.getpid(), 0, None)


def test_default_names_say_what_and_when_and_never_collide(tmp_path: Path) -> None:
    runs = [RunDirectory.create(tmp_path, "cpu-tiny-prenorm-s0", None) for _ in range(20)]
    assert all(re.fullmatch(r"cpu-tiny-prenorm-s0-\d{8}-\d{6}-[0-9a-f]{4}", run.name) for run in runs)
    assert len({run.name for run in runs}) == 20


def test_a_stem_that_cannot_be_a_folder_is_made_one(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "../my preset/" + "x" * 300, None)
    assert run.path.parent == tmp_path
    assert re.fullmatch(r"my-preset-x+-\d{8}-\d{6}-[0-9a-f]{4}", run.name)
    check_name(run.name)


def test_a_name_is_never_used_twice(tmp_path: Path) -> None:
    first = RunDirectory.create(tmp_path, "stem", "mine")
    first.append_metric({"kind": "train", "step": 1})
    with pytest.raises(UserError, match="already a run called 'mine'"):
        RunDirectory.create(tmp_path, "stem", "mine")
    assert len(first.metrics()) == 1


def test_an_existing_folder_that_is_no_run_is_not_used_either(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(UserError):
        RunDirectory.create(tmp_path, "stem", "mine")
    assert not list((tmp_path / "mine").iterdir())


@pytest.mark.parametrize("name", ["[bold]", "<script>", "über-lauf 3", "a.b", "名前", "=1+1", "x" * 120])
def test_a_name_is_just_a_name(tmp_path: Path, name: str) -> None:
    assert RunDirectory.create(tmp_path, "stem", name).name == name


@pytest.mark.parametrize(
    "name", ["", " ", "a/b", "..", ".hidden", "-rf", "a\nb", "\x1b[2J", "x" * 121, "é" * 61, "a\\b"]
)
def test_a_name_that_would_hurt_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot be the name of a run"):
        RunDirectory.create(tmp_path, "stem", name)
    assert not list(tmp_path.iterdir())


def test_manifest_and_presets_read_back(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "mine")
    run.write_manifest({"scheme": "prenorm", "flops": {"total": 1e300}})
    run.write_presets(preset="# mine\n", resolved='[model]\nd_model = 64\nname = "é"\n')
    assert run.manifest() == {
        "schema": "attnres.manifest/1",
        "name": "mine",
        "scheme": "prenorm",
        "flops": {"total": 1e300},
    }
    assert run.preset_toml.read_text() == "# mine\n"
    assert run.resolved() == {"model": {"d_model": 64, "name": "é"}}


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"a": '])
def test_a_broken_manifest_is_a_sentence(tmp_path: Path, content: str | None) -> None:
    run = RunDirectory.create(tmp_path, "stem", "mine")
    if content is not None:
        run.manifest_path.write_text(content)
    with pytest.raises(UserError, match="mine"):
        run.manifest()


@pytest.mark.parametrize("content", [None, "[model", b"\xff\xfe"])
def test_a_broken_resolved_preset_is_a_sentence(tmp_path: Path, content: str | bytes | None) -> None:
    run = RunDirectory.create(tmp_path, "stem", "mine")
    if content is not None:
        run.resolved_toml.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UserError, match="mine"):
        run.resolved()


def test_changes_of_the_state_keep_its_other_fields_and_renew_the_heartbeat(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "mine")
    before = run.read_state()
    run.write_state(step=40, resume="attnres train --resume mine")
    after = run.read_state()
    assert (after["step"], after["resume"], after["pid"]) == (40, "attnres train --resume mine", before["pid"])
    assert after["heartbeat"] >= before["heartbeat"]


def test_two_threads_change_the_state_without_losing_anything(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "mine")
    threads = [threading.Thread(target=lambda: [run.write_state() for _ in range(10)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for step in range(1, 11):
        run.write_state(step=step)
        assert run.read_state()["status"] == "running"
    for thread in threads:
        thread.join()
    assert run.read_state()["step"] == 10


@pytest.mark.parametrize("content", ["", "{", "[]", '{"status": "dancing"}'])
def test_a_broken_state_is_unreadable_and_no_error(tmp_path: Path, content: str) -> None:
    run = RunDirectory.create(tmp_path, "stem", "mine")
    run.state_path.write_text(content)
    assert run.status == UNREADABLE
    assert not run.is_run  # no manifest yet, so nothing says that this folder is ours
    run.write_manifest({})
    assert run.is_run


def test_evaluations_and_train_rows_are_read_apart(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "mine")
    for step in (1, 2):
        run.append_metric({"kind": "train", "step": step, "loss": 3.0 - step})
    run.append_metric({"kind": "eval", "step": 2, "loss": 1.5})
    run.append_metric({"kind": "event", "step": 2, "event": "finished"})
    assert [row["step"] for row in run.train_rows()] == [1, 2]
    assert [row["loss"] for row in run.evaluations()] == [1.5]
    assert run.last_evaluation() == run.evaluations()[-1]


def test_the_last_evaluation_is_found_far_from_the_end_of_the_file(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "mine")
    lines = ['{"kind": "eval", "step": 1, "loss": 2.5}']
    lines += [json.dumps({"kind": "train", "step": step, "pad": "x" * 100}) for step in range(2, 1000)]
    run.metrics_path.write_text("\n".join(lines) + "\n")
    assert (run.last_evaluation() or {})["loss"] == 2.5
    run.metrics_path.unlink()
    assert run.last_evaluation() is None


def test_resuming_forgets_metrics_and_observations_after_the_checkpoint(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "mine")
    for step in (10, 20, 30):
        run.append_metric({"kind": "train", "step": step})
        run.append_observation({"observer": "magnitudes", "step": step})
    with run.metrics_path.open("a") as handle:
        handle.write('{"kind": "tra')
    run.truncate_metrics(after_step=20)
    assert [row["step"] for row in run.metrics()] == [10, 20]
    assert [row["step"] for row in run.observations()] == [10, 20]
    assert run.read_metrics().torn == 0
    assert (run.last_observation("magnitudes") or {})["step"] == 20
    assert run.last_observation("depth_weights") is None


def test_complete_checkpoints_are_ordered_by_their_number(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "mine")
    for step in (900, 1_000_000, 20):
        run.checkpoint_folder(step).mkdir()
        (run.checkpoint_folder(step) / "state.json").write_text("{}")
    run.checkpoint_folder(30).mkdir()  # incomplete
    (run.checkpoints_folder / "step-abc").mkdir()
    assert [path.name for path in run.checkpoints()] == ["step-000020", "step-000900", "step-1000000"]


def test_the_log_has_one_line_per_sentence(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "mine")
    run.log("a sentence\nin two lines")
    run.log("another")
    lines = run.log_path.read_text().splitlines()
    assert [line.partition(" ")[2] for line in lines] == ["a sentence in two lines", "another"]


def test_a_checkpoint_folder_is_no_run(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "mine")
    folder = run.checkpoint_folder(5)
    folder.mkdir()
    (folder / "state.json").write_text('{"step": 5, "status": "complete"}')
    assert not RunDirectory(folder).is_run


def test_a_link_to_a_run_is_no_run_of_its_own(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "mine")
    link = tmp_path / "link"
    link.symlink_to(run.path)
    assert not RunDirectory(link).is_run


def test_the_room_loads_no_torch_and_no_numpy() -> None:
    modules = [path.stem for path in (Path(attnres_cli.__file__).parent / "runs").glob("[!_]*.py")]
    code = "import sys\n" + "".join(f"import attnres_cli.runs.{name}\n" for name in modules)
    code += "print({'torch', 'numpy', 'rich', 'pydantic'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(attnres_cli.__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "set()"
