"""Freed memory stays with the process: what one step gives back, the next one takes again.

glibc hands large blocks back to the system when they are freed. A training step then takes page faults for all that the
one before had, thousands of them, which on a virtual machine can cost more than the kernels that use the memory. With
both thresholds out of the way nothing goes back before the program ends.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

# Of <malloc.h>.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
# The largest that glibc takes: half of a thread's heap. Larger blocks are mapped one by one, as ever.
MMAP_THRESHOLD_BYTES = 32 << 20
TRIM_THRESHOLD_BYTES = (1 << 31) - 1
# Whoever sets one of these has an opinion, which holds; and another allocator has switches of its own.
OWN_OPINIONS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES", "LD_PRELOAD")


@cache
def keep_freed_memory() -> str:
    """Set it once for this process. Returns one clause about it: what was done, or why nothing was."""
    opinion = next((name for name in OWN_OPINIONS if os.environ.get(name)), None)
    if opinion is not None:
        return f"as {opinion} says"
    if not sys.platform.startswith("linux"):
        return "as the system has it"
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # no glibc: musl, for one, has no such switch
        return "as the system has it"
    done = mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES) and mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
    return "freed memory is kept for the next step" if done else "as the system has it"
