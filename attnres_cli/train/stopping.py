"""SIGINT, SIGTERM and SIGHUP stop a run at its next safe point; a second SIGINT or SIGTERM ends the process at once.

SIGHUP says that a terminal was closed or a connection dropped. It may come twice then, from the shell and from the
system, and is no sign of impatience.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType

from attnres_cli.errors import ExitCode

HANG_UP: int | None = getattr(signal, "SIGHUP", None)  # Windows has none


def stop_signals() -> tuple[int, ...]:
    """The signals that ask to stop here and now: not SIGHUP in a process that was started to outlive it (nohup)."""
    hears_hang_up = HANG_UP is not None and signal.getsignal(HANG_UP) is not signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *((HANG_UP,) if HANG_UP is not None and hears_hang_up else ()))


class StopRequest:
    """A context in which these signals set `requested` instead of killing the process. Handlers are restored at the
    end.

    Outside the main thread, where Python delivers no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._insisted = False
        self._previous: dict[int, object] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in stop_signals():
                self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        if number != HANG_UP:
            if self._insisted:
                os._exit(ExitCode.INTERRUPTED)
            self._insisted = True
