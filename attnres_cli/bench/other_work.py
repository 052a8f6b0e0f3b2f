"""How busy everybody else kept the machine: the processor time of all processes less that of this one."""

from __future__ import annotations

import os
import time
from pathlib import Path

STATISTICS = Path("/proc/stat")


class OtherWork:
    """Counts from its making on."""

    def __init__(self) -> None:
        self._busy, self._own, self._began = busy_seconds(), time.process_time(), time.perf_counter()

    def cores(self) -> float | None:
        """Cores that others have kept busy on average since then; None where the system does not say.

        On a virtual machine or in a container it is the whole host as far as the kernel shows it; time that the
        hypervisor gave to others counts as theirs.
        """
        now = busy_seconds()
        elapsed = time.perf_counter() - self._began
        if self._busy is None or now is None or elapsed <= 0:
            return None
        own = time.process_time() - self._own
        return max(0.0, (now - self._busy - own) / elapsed)


def busy_seconds() -> float | None:
    """Seconds that all cores together have been busy since the start of the system, or None."""
    try:
        words = STATISTICS.read_text(encoding="ascii").split("\n", 1)[0].split()
        user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = map(int, words[1:9])
        ticks = user + nice + system + interrupts + soft_interrupts + stolen
        return ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None
