"""Peaks of known allocations."""

from __future__ import annotations

import torch

from attnres_cli.bench.peak import peak_bytes

CPU = torch.device("cpu")


def test_peak_of_known_allocations() -> None:
    def work() -> None:
        first = torch.empty(1000, dtype=torch.float32)
        second = torch.empty(500, dtype=torch.float32)
        del first
        third = torch.empty(250, dtype=torch.float32)
        del second, third

    assert peak_bytes(work, CPU) == 4 * 1500


def test_what_was_there_before_does_not_count() -> None:
    kept = [torch.empty(5000)]

    def work() -> None:
        kept.clear()
        torch.empty(100)

    assert peak_bytes(work, CPU) == 400


def test_work_that_allocates_nothing() -> None:
    assert peak_bytes(lambda: None, CPU) == 0
