"""What a user did wrong, as a value: one sentence, the place, what was expected, and one thing to try.

Every room raises these; only `cli/app.py` turns them into a panel and an exit code. Programming errors stay `assert`s.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns. Documented in docs/exit-codes.md and relied on by scripts: never renumber."""

    DONE = 0
    UNEXPECTED = 1
    USAGE = 2
    INPUT = 3
    DIVERGED = 4
    OUT_OF_MEMORY = 5
    THRESHOLD = 6
    INTERRUPTED = 130


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    what: one sentence. where: `file:line` or the option. expected: what would be right. nearest: the valid name closest
    to the one given. hint: one command or action to try.
    """

    what: str
    where: str | None = None
    expected: str | None = None
    nearest: str | None = None
    hint: str | None = None


class UserError(Exception):
    """One or more faults that the user can mend; shown as one panel, without a traceback."""

    def __init__(
        self,
        what: str | Sequence[Fault],
        *,
        where: str | None = None,
        expected: str | None = None,
        nearest: str | None = None,
        hint: str | None = None,
        exit_code: ExitCode = ExitCode.INPUT,
    ) -> None:
        if isinstance(what, str):
            self.faults: tuple[Fault, ...] = (Fault(what, where, expected, nearest, hint),)
        else:
            self.faults = tuple(what)
        assert self.faults, "a UserError without a fault"
        self.exit_code = exit_code
        super().__init__("; ".join(fault.what for fault in self.faults))


class Interrupted(KeyboardInterrupt):
    """A signal asked a command to stop, and the command knows what was kept.

    what: one or two sentences about that. hint: one line that says how to go on.
    """

    def __init__(self, what: str, *, hint: str | None = None) -> None:
        self.what, self.hint = what, hint
        super().__init__(what)


def nearest_name(name: str, valid: Iterable[str]) -> str | None:
    """The valid name a user most likely meant: one that `name` begins, else a similar one, else None."""
    from difflib import get_close_matches  # needed when something is wrong, and slow to load for every command

    candidates = list(valid)
    begun = [each for each in candidates if each.startswith(name)] if len(name) > 2 else []
    close = get_close_matches(name, begun, n=1, cutoff=0.0) or get_close_matches(name, candidates, n=1, cutoff=0.55)
    return close[0] if close else None


def plural(count: int, noun: str) -> str:
    """The noun that stands behind the number `count`: "step", or "steps"."""
    return noun if count == 1 else f"{noun}s"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, torch's CPU allocator or a CUDA library ran out of memory; torch is not imported for it."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    signs = ("not enough memory", "can't allocate memory", "ALLOC_FAILED")
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)


# What a disk or a folder refuses, by the number of the error: what is told of the place, and what helps.
_STORAGE = {
    errno.ENOSPC: ("There is no room left in {place}", "make room on that disk"),
    errno.EDQUOT: ("Your disk quota is used up: there is no room left in {place}", "make room on that disk"),
    errno.EROFS: ("{place} cannot be written: its disk is read-only", "make it writable"),
    errno.EACCES: ("Permission denied: {place} may not be read or written", "change its permissions"),
    errno.EPERM: ("Permission denied: {place} may not be read or written", "change its permissions"),
}


def storage_trouble(error: BaseException, folder: str | os.PathLike[str] | None = None) -> tuple[str, str] | None:
    """What a full disk, or a folder that may not be written, did to a file: what is wrong, without a full stop, and
    what helps; None for every other error. folder: the one at work, told where the error names no file, or where one
    in it finds no room.
    """
    if not isinstance(error, OSError) or error.errno not in _STORAGE:
        return None
    what, remedy = _STORAGE[error.errno]
    named, work = error.filename2 or error.filename, "" if folder is None else os.fspath(folder)
    if not isinstance(named, (str, bytes, os.PathLike)):
        if error.errno in (errno.EACCES, errno.EPERM):  # of a process or a port, not of a file
            return None
        return what.format(place=f"'{work}'" if work else "the folder that is written to"), remedy
    place = os.fsdecode(named)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):  # the file that happened to be the last one says little
        place = work if work and place.startswith(work) else os.path.dirname(place) or "."
    return what.format(place=f"'{place}'"), remedy
