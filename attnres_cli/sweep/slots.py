"""Where the trainings of a sweep run: one per GPU, or side by side on the cores."""

from __future__ import annotations

import os
from collections.abc import Sequence

from attnres_cli.sweep.execution import Slot, usable_cores

# More trainings than this side by side gain little and need a lot of memory; --jobs says otherwise.
MOST_CPU_JOBS = 8


def choose_slots(device: str, preset_threads: int, runs: int, jobs: int | None) -> list[Slot]:
    """One slot per training that runs at a time.

    device: train.device. preset_threads: train.threads (0: not fixed). runs: how many there are to train. jobs: what
    the user asked for, None for as many as GPUs or cores allow.
    """
    gpus = visible_gpus(device)
    if gpus:
        return gpu_slots(gpus, min(jobs or len(gpus), max(runs, 1)))
    return cpu_slots(_cores(), preset_threads, min(jobs or MOST_CPU_JOBS, max(runs, 1)), forced=jobs is not None)


def gpu_slots(gpus: Sequence[str], jobs: int) -> list[Slot]:
    """`jobs` slots dealt out over the GPUs. A single one stays in this process, which sees the GPU anyway."""
    if jobs == 1:
        return [Slot()]
    return [Slot(environment={"CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)]}) for number in range(jobs)]


def cpu_slots(cores: int, preset_threads: int, jobs: int, *, forced: bool) -> list[Slot]:
    """Slots that share the cores evenly. Unless `forced`, no more than there are cores for.

    A single one leaves the number of threads to torch, which knows physical cores from logical ones.
    """
    if not forced:
        jobs = max(1, min(jobs, cores // max(1, preset_threads)))
    if jobs == 1:
        return [Slot(threads=preset_threads)]
    threads = preset_threads or max(1, cores // jobs)
    return [Slot(threads=threads)] * jobs


def visible_gpus(device: str) -> list[str]:
    """The GPUs that trainings on `device` may be dealt out over, as CUDA_VISIBLE_DEVICES spells them; none for the CPU.

    A preset that names one GPU ("cuda:1") keeps it: then there is nothing to deal out.
    """
    if device not in ("auto", "cuda"):
        return ["0"] if device.startswith("cuda") else []
    import torch

    count = torch.cuda.device_count()
    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return named[:count] if named else [str(number) for number in range(count)]


def _cores() -> int:
    """Cores for the sweep: what the process may use, or what OMP_NUM_THREADS allows where that is less."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(usable_cores(), int(wanted)) if wanted.isdigit() and int(wanted) > 0 else usable_cores()
