"""The machine as `attnres doctor` sees it: processor, devices, threads, compiler. One function per finding."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from attnres_cli.cli.finding import Finding
from attnres_cli.runs.environment import package_version, processor_name

GIB = 2**30


# ---- processor and devices


def usable_cores() -> float:
    """Cores that this process may use: the affinity mask, and the quota of a container."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return cores if quota == "max" else min(cores, int(quota) / int(period))
    except (OSError, ValueError):
        return cores


def processor() -> Finding:
    cores = usable_cores()
    text = f"{processor_name()}, {cores:g} usable cores"
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > cores:
        advice = "times will be longer and less even than on a quiet machine; close what is not needed"
        return Finding("processor", "note", f"{text}, busy with other work (load {load:.1f})", advice)
    return Finding("processor", "ok", text)


def devices() -> Iterator[Finding]:
    """Every CUDA device, or why there is none."""
    import torch

    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            free, total = torch.cuda.mem_get_info(index)
            halves = "bf16" if properties.major >= 8 else "no fast bf16"
            text = f"{properties.name}, {free / GIB:.1f} of {total / GIB:.1f} GiB free, {halves}"
            yield Finding(f"cuda:{index}", "ok", text)
    elif shutil.which("nvidia-smi") is None:
        yield Finding("device", "ok", "no GPU; training runs on the CPU")
    elif torch.version.cuda is None:
        advice = "install torch for your driver: https://pytorch.org/get-started/locally/"
        yield Finding("device", "note", "an NVIDIA driver is here, but this torch is built without CUDA", advice)
    else:
        text = f"torch is built for CUDA {torch.version.cuda} and finds no usable GPU"
        yield Finding(
            "device", "note", text, "see what `nvidia-smi` says; a driver older than this torch needs an older torch"
        )


# ---- threads


def threads() -> Finding:
    import torch

    count, cores = torch.get_num_threads(), usable_cores()
    wanted = os.environ.get("OMP_NUM_THREADS")
    text = f"{count} for torch" + (f" (OMP_NUM_THREADS={wanted})" if wanted else "")
    if count > max(1.0, cores):
        advice = f"--set train.threads={max(1, int(cores))}"
        return Finding("threads", "note", f"{text}, more than the {cores:g} usable cores", advice)
    return Finding("threads", "ok", text)


def waiting() -> Finding:
    """How idle OpenMP threads wait, as the library itself reports it when torch loads it."""
    policy = (_openmp_says("OMP_WAIT_POLICY") or os.environ.get("OMP_WAIT_POLICY", "unknown")).upper()
    text = f"OMP_WAIT_POLICY {policy}"
    if policy == "ACTIVE":
        advice = "on shared cores, waiting threads take the time of working ones: unset OMP_WAIT_POLICY"
        return Finding("waiting", "note", text, advice)
    return Finding("waiting", "ok", text)


def allocator() -> Finding:
    """What becomes of freed memory while models are trained on the CPU."""
    from attnres_cli.native.allocator import keep_freed_memory

    return Finding("allocator", "ok", keep_freed_memory())


def _openmp_says(variable: str) -> str | None:
    """The value that OpenMP settles on, from its own report when a fresh process loads the library that torch uses.

    None where there is no such library or it gives no report.
    """
    import torch  # noqa: F401  (loads the library)

    try:
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        return None
    library = re.search(r"\S*/lib(?:gomp|iomp|omp)[^/\s]*\.so\S*", mapped)
    if library is None:
        return None
    report = subprocess.run(
        [sys.executable, "-c", f"import ctypes; ctypes.CDLL({library.group()!r})"],
        env={**os.environ, "OMP_DISPLAY_ENV": "true"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    match = re.search(rf"{variable}\s*=\s*'(\w+)'", report.stderr + report.stdout)
    return match.group(1) if match else None


# ---- compiler


def compiler() -> Finding:
    """What torch.compile needs on a CPU; `compile = "auto"` does without."""
    advice = "only train.compile = 'on' needs it on a CPU: install g++ and Python's headers (python3-dev)"
    command = next((each for each in (os.environ.get("CXX"), "g++", "clang++") if each and shutil.which(each)), None)
    if command is None:
        return Finding("compiler", "note", "no C++ compiler", advice)
    answer = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
    first_line = (answer or command).splitlines()[0]
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return Finding("compiler", "note", f"{first_line}, but no Python.h", advice)
    ninja = "ninja" if shutil.which("ninja") or package_version("ninja") else "no ninja"
    return Finding("compiler", "ok", f"{first_line}, {ninja}")


def native_operators() -> Finding:
    """Whether the fast CPU operators are there; builds them if that has not been done."""
    from attnres_cli.native import build

    reason = build.load()
    if reason is None:
        return Finding("C++ operators", "ok", f"built, in {build.cache_folder()}")
    advice = "plain PyTorch does the same, more slowly: install GCC (g++), or name it in CXX"
    return Finding("C++ operators", "note", reason, advice)
