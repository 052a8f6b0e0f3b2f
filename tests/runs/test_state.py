"""A run is alive when its process is, and its heartbeat is young."""

from __future__ import annotations

import platform
import threading

import pytest

from attnres_cli.runs.state import (
    STALE,
    STALE_AFTER_SECONDS,
    UNREADABLE,
    beating,
    first_state,
    judged_status,
)
from tests.runs.test_process import dead_pid


def test_a_new_state_reads_as_running() -> None:
    assert judged_status(first_state()) == "running"


@pytest.mark.parametrize("status", ["finished", "interrupted", "diverged", "failed"])
def test_an_ended_run_is_what_it_says_however_old(status: str) -> None:
    assert judged_status({**first_state(), "status": status, "heartbeat": 0.0, "pid": dead_pid()}) == status


def test_a_running_run_whose_process_is_gone_is_stale() -> None:
    assert judged_status({**first_state(), "pid": dead_pid()}) == STALE


def test_the_process_of_another_host_is_judged_by_its_heartbeat_alone() -> None:
    elsewhere = {**first_state(), "pid": dead_pid(), "host": platform.node() + "-other"}
    beat = elsewhere["heartbeat"]
    assert judged_status(elsewhere, now=beat + STALE_AFTER_SECONDS - 1) == "running"
    assert judged_status(elsewhere, now=beat + STALE_AFTER_SECONDS + 1) == STALE


def test_a_silent_run_is_stale_although_a_process_has_its_number() -> None:
    state = first_state()
    assert judged_status(state, now=state["heartbeat"] + STALE_AFTER_SECONDS + 1) == STALE


@pytest.mark.parametrize("state", [{}, {"status": "dancing"}, {"status": None}, {"status": ["running"]}])
def test_a_state_that_is_none_is_unreadable(state: dict[str, object]) -> None:
    assert judged_status(state) == UNREADABLE


def test_a_running_state_without_a_heartbeat_is_stale() -> None:
    assert judged_status({"status": "running", "heartbeat": "now"}) == STALE


def test_the_heart_beats_while_the_body_runs_and_stops_with_it() -> None:
    three = threading.Semaphore(0)
    with beating(three.release, every_seconds=0.001):
        for _ in range(3):
            assert three.acquire(timeout=30)
    assert not [thread for thread in threading.enumerate() if thread.name == "attnres-heartbeat"]


def test_a_beat_that_fails_does_not_stop_the_heart() -> None:
    beats = threading.Semaphore(0)

    def beat() -> None:
        beats.release()
        raise OSError("disk full")

    with beating(beat, every_seconds=0.001):
        assert beats.acquire(timeout=30)
        assert beats.acquire(timeout=30)
