"""What a user did wrong, as a value: one sentence, the place, what was expected, and one thing to try.

Every room raises these; only `cli/app.py` turns them into a panel and an exit code. Programming errors stay `assert`s.
"""

from __future__ import annotations

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
