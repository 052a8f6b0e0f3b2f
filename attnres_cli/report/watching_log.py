"""A metrics.jsonl that somebody else is writing: only what was appended since the last look is read.

The writer appends whole lines, may die in the middle of one, and after a resume replaces the file by a shorter one. So
a line counts once its end is there, and when the file is another one, or no longer holds what stood before the place
that was reached, it is read again from its beginning.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from attnres_cli.runs.files import Row, parsed_row
from attnres_cli.runs.metrics import number

CHUNK_BYTES = 2**20
# A chunk of a long file is looked through for its evaluations, and of its training rows only so many are read.
TRAIN_LINES_PER_CHUNK = 128
MOST_POINTS = 512
# What is remembered of the bytes before the place that was reached, to see that they are still the same.
REMEMBERED_BYTES = 64


class MetricsLog:
    """What is known of a metrics.jsonl so far.

    last_train, last_evaluation: the newest rows. evaluated: training tokens -> validation loss. points: (step, training
    loss), at most MOST_POINTS, evenly spread. torn: complete lines that are no JSON object.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, ...] | None = None
        self._forget()

    def _forget(self) -> None:
        self.last_train: Row | None = None
        self.last_evaluation: Row | None = None
        self.evaluated: dict[int, float] = {}
        self.points: list[tuple[int, float]] = []
        self.torn = 0
        self._steps_between_points = 1
        self._offset = 0
        self._before = b""  # the last bytes before _offset

    def read(self) -> bool:
        """Take in what was appended; whether anything has changed. A file that is not there holds nothing."""
        try:
            found = os.stat(self.path)
        except OSError:
            changed, self._seen = self._seen is not None, None
            if changed:
                self._forget()
            return changed
        seen = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if seen == self._seen:
            return False
        try:
            with self.path.open("rb") as handle:
                another = self._seen is None or seen[:2] != self._seen[:2] or not self._holds_what_was_read(handle)
                if another:
                    self._forget()
                reached = self._offset
                for lines in self._appended(handle):
                    self._take(lines)
        except OSError:  # it went away, or may not be read: what is known stays, and the next look tries again
            return False
        self._seen = seen
        return another or self._offset > reached

    def _holds_what_was_read(self, handle: BinaryIO) -> bool:
        handle.seek(self._offset - len(self._before))
        return handle.read(len(self._before)) == self._before

    def _appended(self, handle: BinaryIO) -> Iterator[list[bytes]]:
        """The complete lines from the place that was reached, chunk by chunk; the place moves on behind them."""
        handle.seek(self._offset)
        rest = b""
        while chunk := handle.read(CHUNK_BYTES):
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline:
                self._offset += len(whole) + 1
                self._before = (self._before + whole[-REMEMBERED_BYTES:] + newline)[-REMEMBERED_BYTES:]
                yield whole.split(b"\n")

    def _take(self, lines: list[bytes]) -> None:
        """Every evaluation, and the training rows unless there are very many, the last one always."""
        between = -(-len(lines) // TRAIN_LINES_PER_CHUNK)
        last = len(lines) - 1
        chosen = (
            line
            for place, line in enumerate(lines)
            if place % between == 0 or last - place < between or b'"eval"' in line
        )
        for row in self._rows(chosen):
            step, loss = row.get("step"), number(row, "loss")
            if not isinstance(step, int):
                continue
            if row.get("kind") == "train":
                self.last_train = row
                if loss is not None:
                    self._add_point(step, loss)
            elif row.get("kind") == "eval":
                self.last_evaluation = row
                tokens = row.get("tokens")
                if isinstance(tokens, int) and loss is not None:
                    self.evaluated[tokens] = loss

    def _rows(self, lines: Iterable[bytes]) -> Iterator[Row]:
        for line in lines:
            if not line.strip():
                continue
            row = parsed_row(line)
            if row is None:
                self.torn += 1
            else:
                yield row

    def _add_point(self, step: int, loss: float) -> None:
        if self.points and step < self.points[-1][0] + self._steps_between_points:
            return
        self.points.append((step, loss))
        if len(self.points) > MOST_POINTS:
            self.points = self.points[::2]
            self._steps_between_points = max(1, (step - self.points[0][0]) // (MOST_POINTS // 2))
