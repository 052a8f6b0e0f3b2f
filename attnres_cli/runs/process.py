"""Which process writes a run, and whether that very process is still there.

A number alone is not enough: the system gives it to another process later, and a killed one keeps it until its parent
has asked how it ended. So the moment it began, the boot and the name space of numbers are recorded, too.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
# Letters of /proc/<pid>/stat for a process that does nothing any more: zombie, dead.
_ENDED = ("Z", "X", "x")


def own_process() -> dict[str, Any]:
    """The fields of state.json that say which process writes it; None where the system does not tell."""
    stat = _stat(os.getpid())
    return {
        "pid": os.getpid(),
        "host": platform.node(),
        "boot": _boot(),
        "pid_namespace": _pid_namespace(),
        "process_began": stat[1] if stat else None,
    }


def is_gone(process: Mapping[str, Any]) -> bool:
    """True when the process that `own_process` described certainly no longer runs; False when it does, or when this
    host cannot tell (another host, another container).

    process: its fields, and "heartbeat" (unix seconds), the last time it wrote.
    """
    pid = process.get("pid")
    if process.get("host") != platform.node() or not isinstance(pid, int) or pid <= 0:
        return False
    if os.name != "posix":  # Windows has no harmless signal 0; the heartbeat decides there.
        return False
    if _differs(process.get("boot"), _boot()):  # this machine was started anew, or it is another one of the same name
        return _is_from_before_the_boot(process.get("heartbeat"))
    if _differs(process.get("pid_namespace"), _pid_namespace()):
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # a number too large for any process
        return True
    except PermissionError:  # exists, and belongs to somebody else
        pass
    stat = _stat(pid)
    return stat is not None and (stat[0] in _ENDED or _differs(process.get("process_began"), stat[1]))


def _differs(recorded: object, found: object) -> bool:
    """Whether both are known and not the same."""
    return recorded is not None and found is not None and recorded != found


def _is_from_before_the_boot(heartbeat: object) -> bool:
    """Whether the last heartbeat (unix seconds) was written before this machine was started."""
    if not isinstance(heartbeat, (int, float)) or not hasattr(time, "CLOCK_BOOTTIME"):
        return False
    return time.time() - heartbeat > time.clock_gettime(time.CLOCK_BOOTTIME)


def _stat(pid: int) -> tuple[str, int] | None:
    """(letter of its condition, clock ticks from boot to its beginning), None where there is no /proc."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        words = text.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
        return words[0], int(words[19])
    except (OSError, ValueError, IndexError):
        return None


def _boot() -> str | None:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None


def _pid_namespace() -> str | None:
    try:
        return os.readlink(_PROC / "self/ns/pid")
    except OSError:
        return None
