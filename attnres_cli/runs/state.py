"""Is this run alive? What the process says in state.json, checked against the process itself.

A run that was killed cannot say so: its state still reads "running". So a reader looks for the process (same host)
and at the age of the heartbeat, and calls the run "stale" when either is gone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from attnres_cli.runs.process import is_gone, own_process

STATUSES = ("running", "finished", "interrupted", "diverged", "failed")
STALE = "stale"
UNREADABLE = "unreadable"
ENDED = (*(status for status in STATUSES if status != "running"), STALE)  # nobody writes the run, unless it is resumed
STALE_AFTER_SECONDS = 300.0
BEAT_EVERY_SECONDS = 20.0
# Fields that every version of the program has written: what makes a JSON file the state of a run.
ESSENTIAL_FIELDS = frozenset({"status", "step", "steps", "pid", "host", "heartbeat", "resume", "error"})


def first_state() -> dict[str, Any]:
    """The state of a run that has just been created by this process."""
    return {
        "status": "running",
        "step": 0,
        "steps": None,
        **own_process(),
        "heartbeat": time.time(),
        "resume": None,
        "error": None,
    }


def judged_status(state: Mapping[str, Any], *, now: float | None = None) -> str:
    """The status a reader should believe: one of STATUSES, STALE, or UNREADABLE for a state that is no state.

    now: unix seconds, default the clock.
    """
    status = state.get("status")
    if status not in STATUSES:
        return UNREADABLE
    if status != "running":
        return str(status)
    heartbeat = state.get("heartbeat")
    if not isinstance(heartbeat, (int, float)):
        return STALE
    age_seconds = (time.time() if now is None else now) - heartbeat
    if age_seconds > STALE_AFTER_SECONDS or is_gone(state):
        return STALE
    return "running"


@contextmanager
def beating(beat: Callable[[], object], every_seconds: float = BEAT_EVERY_SECONDS) -> Iterator[None]:
    """Call `beat` every few seconds from a thread while the body runs, so that a long compile does not read as a death.

    A beat that fails (disk full) is skipped: the run matters more than its heartbeat.
    """
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(every_seconds):
            with suppress(OSError):
                beat()

    thread = threading.Thread(target=loop, name="attnres-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
