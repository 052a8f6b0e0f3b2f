"""One sentence to the user from deep inside, such as "building … (once)": the command line decides where it appears."""

from __future__ import annotations

import sys
from collections.abc import Callable


def _to_stderr(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


_sink: Callable[[str], None] = _to_stderr


def notify(sentence: str) -> None:
    _sink(sentence)


def send_notices_to(sink: Callable[[str], None]) -> None:
    """From now on notices go to `sink` instead of stderr."""
    global _sink
    _sink = sink
