from __future__ import annotations

import pytest

from attnres_cli.sweep.execution import Slot
from attnres_cli.sweep.slots import choose_slots, cpu_slots, gpu_slots, visible_gpus


def test_cores_are_shared_evenly() -> None:
    assert cpu_slots(8, 0, 4, forced=False) == [Slot(threads=2)] * 4
    assert cpu_slots(2, 0, 8, forced=False) == [Slot(threads=1)] * 2
    assert cpu_slots(2, 0, 1, forced=False) == [Slot()]


def test_a_preset_that_fixes_its_threads_gets_fewer_neighbours() -> None:
    assert cpu_slots(8, 4, 8, forced=False) == [Slot(threads=4)] * 2


def test_jobs_asked_for_are_given() -> None:
    assert cpu_slots(2, 0, 4, forced=True) == [Slot(threads=1)] * 4


def test_gpus_are_dealt_out() -> None:
    assert [slot.environment["CUDA_VISIBLE_DEVICES"] for slot in gpu_slots(["0", "3"], 3)] == ["0", "3", "0"]
    assert gpu_slots(["0"], 1) == [Slot()]


def test_a_preset_that_names_its_gpu_keeps_it() -> None:
    assert visible_gpus("cuda:1") == ["0"]
    assert visible_gpus("cpu") == []


def test_no_more_slots_than_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert len(choose_slots("cpu", 0, runs=1, jobs=None)) == 1
    assert len(choose_slots("cpu", 0, runs=2, jobs=5)) == 2


def test_the_users_thread_limit_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert choose_slots("cpu", 0, runs=6, jobs=None) == [Slot()]
