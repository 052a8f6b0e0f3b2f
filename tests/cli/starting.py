"""Starting the program as a user does, in a process of its own, and what it has loaded when it ends."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import attnres_cli

ROOT = Path(attnres_cli.__file__).parent.parent
SLOW = ("torch", "numpy", "tiktoken")


def call(*words: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program as a user starts it."""
    return subprocess.run(
        [sys.executable, "-m", "attnres_cli", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def loaded_by(*words: str, cwd: Path = ROOT, **environment: str) -> set[str]:
    """The modules that the program has loaded when it ends."""
    report = "import atexit, sys; atexit.register(lambda: sys.stderr.write('\\nloaded ' + ' '.join(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{report}\nfrom attnres_cli.cli.app import main\nmain()", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    _, found, modules = done.stderr.partition("\nloaded ")
    assert found, done.stderr
    return set(modules.split())


def on_a_terminal(folder: Path, *words: str, columns: int = 80, **environment: str) -> str:
    """What the program writes to a terminal of this width."""
    pty = pytest.importorskip("pty")
    import fcntl
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "attnres_cli", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", **environment},
        stdin=subprocess.DEVNULL,
        stdout=child,
        stderr=subprocess.PIPE,
    )
    os.close(child)
    written = b""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        written += part
    os.close(parent)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return written.decode().replace("\r\n", "\n")
