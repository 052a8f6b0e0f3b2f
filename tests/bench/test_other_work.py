"""The processor time of others, from fabricated statistics of the system and from the real ones."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from attnres_cli.bench import other_work
from attnres_cli.bench.other_work import OtherWork, busy_seconds

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def write(path: Path, user: float, idle: float = 50.0, waiting: float = 9.0) -> None:
    """Seconds; a tenth of a second of everything else that counts as busy."""
    fields = [user, 0.1, 0.1, idle, waiting, 0.1, 0.1, 0.1, 7.0, 0.0]
    path.write_text("cpu  " + " ".join(str(round(field * TICKS)) for field in fields) + "\ncpu0 1 2 3\n")


@pytest.fixture
def statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "stat"
    monkeypatch.setattr(other_work, "STATISTICS", path)
    return path


def test_idle_waiting_and_guests_are_not_busy(statistics: Path) -> None:
    write(statistics, user=3.0)
    assert busy_seconds() == pytest.approx(3.5)


def test_our_own_time_is_taken_off(statistics: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, wall = iter([10.0, 11.5]), iter([100.0, 102.0])
    clocks = SimpleNamespace(process_time=lambda: next(own), perf_counter=lambda: next(wall))
    monkeypatch.setattr(other_work, "time", clocks)
    write(statistics, user=3.0)
    others = OtherWork()
    write(statistics, user=6.5)
    assert others.cores() == pytest.approx((3.5 - 1.5) / 2.0)


@pytest.mark.parametrize("content", [None, "", "cpu", "cpu  a b c d e f g h i\n"])
def test_a_system_that_does_not_say(statistics: Path, content: str | None) -> None:
    if content is not None:
        statistics.write_text(content)
    assert busy_seconds() is None
    assert OtherWork().cores() is None


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs Linux")
def test_the_real_statistics_only_grow() -> None:
    before = busy_seconds()
    sum(range(10**6))
    after = busy_seconds()
    assert before is not None
    assert after is not None
    assert 0 < before <= after
