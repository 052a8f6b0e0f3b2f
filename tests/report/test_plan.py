"""The tables of `attnres plan` from payloads written by hand: rows that can be compared, captions that fit."""

from __future__ import annotations

from typing import Any

import pytest

from attnres_cli.analysis.plan import memory_accesses
from attnres_cli.report.tables.plan import _time as run_time
from attnres_cli.report.tables.plan import accesses, memory
from tests.small import small_preset

PLAN = {"schedule": {"micro_batch_sequences": 2, "precision": "fp32"}, "model": {"context_tokens": 64}}
MIB = 2**20


def arm(scheme: str, activations: int, logits: int, gradients: int) -> dict[str, Any]:
    parts = {
        "weights": 10 * MIB,
        "optimiser state": 20 * MIB,
        "gradients": gradients * MIB,
        "activations": activations * MIB,
        "logits": logits * MIB,
    }
    return {"scheme": scheme, "memory_bytes_by_part": parts, "memory_bytes": sum(parts.values())}


def test_arms_that_peak_at_different_moments_are_compared_by_what_the_pass_holds() -> None:
    table = memory(PLAN, [arm("plain", 40, 8, 0), arm("mixing", 60, 0, 1), arm("tiny", 0, 0, 10)])
    rows = {str(row["part"]): [row[name] for name in ("plain", "mixing", "tiny")] for row in table.rows}
    assert rows == {
        "weights": [10 * MIB] * 3,
        "optimiser state": [20 * MIB] * 3,
        "pass, at its peak": [48 * MIB, 61 * MIB, 10 * MIB],
        "total": [78 * MIB, 91 * MIB, 40 * MIB],
    }
    assert table.remarks == (
        "plain: the pass peaks at the loss (activations 40.0 MiB, logits 8.0 MiB)",
        "mixing: the pass peaks in the backward pass, when the logits are gone "
        "(activations 60.0 MiB, gradients 1.0 MiB)",
        "tiny: the pass peaks in the optimiser's step (gradients 10.0 MiB)",
    )


@pytest.mark.parametrize(
    ("blocks", "kept", "num_blocks", "caption"),
    [
        (8, 3, 3, "N = 3, S = 5.33333,"),
        (8, 16, 16, "N = 16, S = 1,"),  # a block per sublayer is still the scheme's own choice
        (8, 0, None, "N = 8 (the paper's; no scheme here has blocks of its own), S = 2,"),
        (2, 0, None, "N = 4 (the paper's 8 are more than there are sublayers; no scheme here has blocks of its own)"),
        (2, 4, 4, "N = 4, S = 1,"),
    ],
)
def test_the_access_table_says_whose_blocks_it_counts(
    blocks: int, kept: int, num_blocks: int | None, caption: str
) -> None:
    preset = small_preset(**{"model.transformer_blocks": blocks})
    table = accesses(memory_accesses(preset, kept, num_blocks), preset.model.d_model)
    assert caption in table.caption


def test_times_are_rounded_in_units_that_people_read() -> None:
    time = {"device": "cpu", "is_lower_bound": False, "reason": "timed here"}
    arms = [
        {"scheme": "slow", "time": {**time, "step_seconds": 1460.0, "run_seconds": 2.92e6}},
        {"scheme": "quick", "time": {**time, "step_seconds": 0.114, "run_seconds": 228.0}},
    ]
    plan = {"schedule": {"steps": 2000}}
    notice = run_time(plan, arms)
    assert notice is not None
    assert notice.lines == (
        "slow: about 33d 19h, 2,000 steps of 24m 20s, timed here",
        "quick: about 3m 48s, 2,000 steps of 0.11s, timed here",
    )
