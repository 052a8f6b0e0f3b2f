"""A process is known by more than its number, and one that was killed is seen to be gone at once."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnres_cli.runs import process
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.runs.process import is_gone, own_process

HAS_PROC = Path("/proc/self/stat").exists()
needs_proc = pytest.mark.skipif(not HAS_PROC, reason="needs /proc")


def dead_pid() -> int:
    """The number of a process that has ended and been waited for."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_own_process_is_not_gone() -> None:
    assert not is_gone(own_process())
    assert not is_gone({"host": platform.node(), "pid": os.getpid()})  # as older versions recorded it


@pytest.mark.parametrize("pid", [None, "12", -1, 0])
def test_a_process_number_that_is_none_proves_nothing(pid: object) -> None:
    assert not is_gone({"host": platform.node(), "pid": pid})


def test_a_process_that_has_ended_is_gone() -> None:
    assert is_gone({**own_process(), "pid": dead_pid()})


@needs_proc
def test_a_killed_run_is_stale_before_its_parent_has_asked_how_it_ended(tmp_path: Path) -> None:
    """As under a container's first process that waits for nobody: the number stays taken."""
    program = (
        "import sys, time; from pathlib import Path; from attnres_cli.runs.directory import RunDirectory\n"
        "RunDirectory.create(Path(sys.argv[1]), 'stem', 'killed'); print('made', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "made\n"
        run = RunDirectory(tmp_path / "killed")
        assert run.status == "running"
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended; it keeps its number
        assert run.status == "stale"


@needs_proc
def test_another_process_with_the_number_is_not_the_one() -> None:
    assert is_gone({**own_process(), "process_began": own_process()["process_began"] - 1})


@needs_proc
def test_after_a_restart_of_the_machine_every_earlier_process_is_gone() -> None:
    assert is_gone({**own_process(), "boot": "another", "heartbeat": 0.0})


@needs_proc
def test_another_machine_of_the_same_name_cannot_be_judged() -> None:
    """It wrote after this one was started, and not from here."""
    assert not is_gone({**own_process(), "boot": "another", "heartbeat": time.time(), "pid": dead_pid()})


@needs_proc
def test_a_process_of_another_container_cannot_be_judged() -> None:
    assert not is_gone({**own_process(), "pid_namespace": "pid:[1]", "pid": dead_pid()})


def test_a_system_without_proc_goes_by_the_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "_PROC", tmp_path / "no-such-folder")
    assert own_process()["process_began"] is None
    assert not is_gone(own_process())
    assert is_gone({**own_process(), "pid": dead_pid()})


def test_a_state_without_the_newer_fields_is_still_a_run(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "stem", "old")
    state = json.loads(run.state_path.read_text())
    old = {key: value for key, value in state.items() if key not in ("boot", "pid_namespace", "process_began")}
    run.state_path.write_text(json.dumps(old))
    assert run.is_run
    assert run.status == "running"
