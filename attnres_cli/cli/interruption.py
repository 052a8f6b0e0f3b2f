"""SIGINT, SIGTERM and SIGHUP end a command alike: with a sentence, exit code 130, and nothing half written.

They become a KeyboardInterrupt wherever the program is at the moment. Libraries that are loading each other swallow one
now and then (numpy's C interface clears every error of an import and tries again), so that a request is remembered, and
raised again at the next place that asks for it.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
if sys.platform != "win32":
    _DEFAULTS[signal.SIGHUP] = signal.SIG_DFL  # a terminal is closed, a connection drops; ignored under nohup
_requested = False


def install() -> None:
    """Take the signals, unless the process was started to ignore them. Commands with safe points of their own put
    their handlers in the place of these."""
    forget()
    for number, default in _DEFAULTS.items():
        if signal.getsignal(number) == default:
            signal.signal(number, _interrupt)


def raise_again() -> None:
    """Raise KeyboardInterrupt when a signal came before and nobody has heard of it."""
    if _requested:
        raise KeyboardInterrupt


def forget() -> None:
    """The request has been heard."""
    global _requested
    _requested = False


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _requested
    if _requested and number not in (signal.SIGINT, signal.SIGTERM):
        return  # SIGHUP may come twice, from the shell and from the system; what it ended is being put in order
    _requested = True
    raise KeyboardInterrupt
