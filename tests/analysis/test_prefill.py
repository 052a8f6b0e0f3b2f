"""The paper's prefill example: 128K tokens, 8 blocks: 15 GB whole, 1.9 GB on each of 8 devices, < 0.3 GB in chunks."""

from __future__ import annotations

import pytest

from attnres_cli.analysis.prefill import prefill_memory

GB = 1e9


def test_example_of_the_paper() -> None:
    # Width 7168 in bf16 is what makes the paper's 15 GB.
    one = prefill_memory(representations=8, tokens=131_072, d_model=7168, bytes_per_element=2)
    assert one.total_bytes / GB == pytest.approx(15, abs=0.1)
    sharded = prefill_memory(representations=8, tokens=131_072, d_model=7168, bytes_per_element=2, tensor_parallel=8)
    assert float(sharded.bytes_per_device) / GB == pytest.approx(1.9, abs=0.05)
    assert sharded.chunked_bytes_per_device is not None
    assert float(sharded.chunked_bytes_per_device) / GB < 0.3


def test_a_prompt_of_one_chunk_gains_nothing_from_chunks() -> None:
    prefill = prefill_memory(representations=8, tokens=512, d_model=64, bytes_per_element=4)
    assert prefill.chunked_bytes_per_device is None


def test_a_plain_residual_keeps_nothing() -> None:
    assert prefill_memory(representations=0, tokens=512, d_model=64, bytes_per_element=4).total_bytes == 0
