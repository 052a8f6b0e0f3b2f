"""Facts about the machine and the source that a manifest records. torch's version is read without importing torch."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

GIT_TIMEOUT_SECONDS = 5.0


def environment_facts(**facts: Any) -> dict[str, Any]:
    """The manifest's "environment": versions, platform and processor, plus what only the training process knows.

    facts: device, device_name, threads, compile, precision, deterministic; a later value replaces one found here.
    """
    from attnres_cli import __version__

    return {
        "attnres": __version__,
        "python": platform.python_version(),
        "torch": package_version("torch"),
        "platform": platform.platform(),
        "processor": processor_name(),
        "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY"),
        **facts,
    }


@functools.cache
def package_version(package: str) -> str | None:
    """The installed version of a package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor_name() -> str:
    """The processor as its maker calls it, where the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def git_facts(folder: Path) -> dict[str, Any] | None:
    """{"commit", "dirty"} of the git repository around `folder`, or None without git or a repository with a commit."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": bool(changes) if changes is not None else None}


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=GIT_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
