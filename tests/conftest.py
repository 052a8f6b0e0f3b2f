"""What every test stands on: one thread, no folder of the user's, one cache of prepared data for all test processes."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No clock decides whether an example passes: the machine may have other work. No luck does either: every run of the
# suite tries the same examples. `make search` looks for new ones.
settings.register_profile("attnres", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("search", settings.get_profile("attnres"), derandomize=False, max_examples=1000)
settings.load_profile("search" if os.environ.get("ATTNRES_TESTS_SEARCH") else "attnres")

# Read when torch loads. Processes of pytest-xdist share the cores, and bit-exact tests need a fixed number of threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Built once per checkout, not once per session or process.
os.environ.setdefault("ATTNRES_NATIVE_CACHE", str(Path(__file__).parent.parent / ".pytest_cache" / "native"))

# A shell that starts the tests in the background has them ignore SIGINT, and so would every program that they start and
# interrupt. With a handler here, children begin with the default again.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# What a test writes need not survive a power cut, and waiting for the disk is most of what a short run takes.
os.fsync = lambda fd: None


def pytest_sessionstart(session: pytest.Session) -> None:
    """In a fresh clone the operators are built while the processes of pytest-xdist collect the tests; otherwise all of
    them would wait for one compiler afterwards. They wait for the build's own lock where it takes longer."""
    is_one_of_many = "PYTEST_XDIST_WORKER" in os.environ
    if is_one_of_many or not session.config.getoption("numprocesses", None):
        return
    if not any(Path(os.environ["ATTNRES_NATIVE_CACHE"]).glob("*.so")):
        build = [sys.executable, "-c", "from attnres_cli.native import build; build.load()"]
        running = subprocess.Popen(build, cwd=Path(__file__).parent.parent, stderr=subprocess.DEVNULL)
        session.config.add_cleanup(lambda: _end(running))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.wait()


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay to the end: the garbage collector need not look through them every time."""
    gc.collect()
    gc.freeze()
    # Until the interpreter ends, not before the collections that pytest makes at the end of the session.
    atexit.register(gc.unfreeze)


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder for the whole session, the same one in every process of pytest-xdist."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "attnres-cache"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def user_presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's own presets, which is there and empty."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    folder = tmp_path / "configuration/attnres/presets"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(autouse=True)
def nothing_of_the_user(monkeypatch: pytest.MonkeyPatch, shared_cache: Path) -> None:
    """No preset, run, cache or terminal setting of whoever runs the tests has an effect on them."""
    monkeypatch.setenv("ATTNRES_CACHE", str(shared_cache))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(shared_cache / "no-user-configuration"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("ATTNRES_RUNS", "COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
