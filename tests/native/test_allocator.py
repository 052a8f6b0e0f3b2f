"""Freed memory stays: what is allocated again takes no page fault. Each in a process of its own: it lasts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import torch
from attnres_cli.native.allocator import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = [torch.zeros(1 << 18) for _ in range(64)]  # 64 blocks of 1 MiB
    del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

said = keep_freed_memory()
first, second, third = faults(), faults(), faults()
print(said, first, second, third, sep="|")
"""


def run(**environment: str) -> tuple[str, list[int]]:
    plain = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**plain, **environment}, capture_output=True, text=True, check=True
    )
    said, *counts = done.stdout.strip().split("|")
    return said, [int(count) for count in counts]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a switch of glibc")
def test_freed_memory_is_taken_again_without_a_fault() -> None:
    said, (first, _, third) = run()
    assert said == "freed memory is kept for the next step"
    assert first > 10_000
    assert third < first / 20


def test_an_opinion_of_the_users_own_holds() -> None:
    said, _ = run(MALLOC_TRIM_THRESHOLD_="100000")
    assert said == "as MALLOC_TRIM_THRESHOLD_ says"
