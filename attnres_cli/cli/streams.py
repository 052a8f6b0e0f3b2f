"""stdout and stderr that nobody reads, that have no room or that were closed before the program began.

A result that is lost ends a command; a remark on stderr that is lost does not: a training goes on without its reader.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO

# The file that errors of stdout name.
STDOUT = "<stdout>"


class _Result(io.FileIO):
    """A file whose errors say that they are stdout's."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = STDOUT
            raise


class _Remarks(io.FileIO):
    """A file into which everything can be written; what the system refuses is lost."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or len(data)
        except OSError:
            return len(data)


def take_over() -> None:
    """Let sys.stdout and sys.stderr be such files, and show "?" where a terminal cannot show "Δ"."""
    if sys.stdin is None:
        _occupy(os.O_RDONLY)
    if sys.stdout is None:  # as a full one: whoever writes a result finds that it cannot be written
        sys.stdout = _text(_Result(_occupy(os.O_RDONLY), "w", closefd=False))
    if sys.stderr is None:
        sys.stderr = _text(_Remarks(_occupy(os.O_WRONLY), "w", closefd=False))
    sys.stdout, sys.stderr = _wrapped(sys.stdout, _Result), _wrapped(sys.stderr, _Remarks)


def _occupy(mode: int) -> int:
    """Open nothing in the place of a closed stream, so that no file of the program gets its number."""
    return os.open(os.devnull, mode)  # the lowest number that is free


def _wrapped(stream: TextIO, kind: type[io.FileIO]) -> TextIO:
    """The stream again, on a file of this kind; one that is no plain file (a console of Windows) stays what it is."""
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.reconfigure(errors="replace")
    if type(raw) is not io.FileIO:
        return stream
    file = kind(raw.fileno(), "w", closefd=False)
    if raw is buffer:  # python -u
        return io.TextIOWrapper(file, stream.encoding, "replace", write_through=True)
    return io.TextIOWrapper(io.BufferedWriter(file), stream.encoding, "replace", line_buffering=stream.line_buffering)


def _text(file: io.FileIO) -> TextIO:
    return io.TextIOWrapper(io.BufferedWriter(file), "utf-8", "replace", line_buffering=True)
