"""The most memory that a piece of work holds at once on top of what was there before it."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch


def peak_bytes(work: Callable[[], object], device: torch.device) -> int:
    """Run `work` once and return its peak of live allocations, in bytes. Slows the work down: never time it as well.

    On a CUDA device the allocator keeps count. On the CPU the profiler reports every allocation and release that passes
    PyTorch's allocator; libraries' own scratch memory is not seen.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the profiler writes its start and stop to stderr
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        work()
    results = profile.profiler.kineto_results
    changes = sorted((e.start_ns(), e.nbytes()) for e in results.events() if e.name() == "[memory]")
    held = peak = 0
    for _, change in changes:
        held += change
        peak = max(peak, held)
    return peak
