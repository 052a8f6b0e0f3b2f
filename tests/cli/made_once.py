"""What the program leaves in a folder, made once for all tests of a module; each of them works in a copy.

A fixture of a module stands outside of those that pytest applies to every test, so what they see to is seen to here:
nothing of the user's, and steps that are timed once.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from attnres_cli.cli.app import run
from attnres_cli.sweep import calibration


@dataclass(frozen=True)
class Made:
    """A folder, and how the command ended that worked there: its exit code, and what it printed."""

    folder: Path
    code: int
    out: str
    err: str

    def copy_to(self, folder: Path) -> None:
        """Everything in the folder, times of files included."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)


@contextlib.contextmanager
def working_in(folder: Path, cache: Path) -> Iterator[None]:
    """In `folder`, with prepared data in `cache` (the fixture `shared_cache`)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("ATTNRES_CACHE", str(cache))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("XDG_CONFIG_HOME", str(cache / "no-user-configuration"))
        for name in ("ATTNRES_RUNS", "COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
            patch.delenv(name, raising=False)
        patch.setattr(calibration, "ROUNDS", 1)
        yield


def made(words: Sequence[str], folder: Path, cache: Path) -> Made:
    """The command of these words, run in `folder`."""
    out, err = io.StringIO(), io.StringIO()
    with working_in(folder, cache), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(list(words))
    return Made(folder, code, out.getvalue(), err.getvalue())
