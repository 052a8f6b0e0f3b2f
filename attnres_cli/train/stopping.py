"""SIGINT and SIGTERM stop a run at its next safe point; a second signal ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType

from attnres_cli.errors import ExitCode


class StopRequest:
    """A context in which the two signals set `requested` instead of killing the process. Handlers are restored at
    the end.

    Outside the main thread, where Python delivers no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            os._exit(ExitCode.INTERRUPTED)
        self.requested = True
