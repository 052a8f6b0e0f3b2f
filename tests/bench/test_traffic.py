"""Bytes and FLOPs of the residual path against counts by hand, for depths where every term can be written down.

X is one [M, d] tensor. The small model has 8 sublayers, so 9 sites, and d = 16.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnres_cli.bench.backends import without_choice
from attnres_cli.bench.traffic import Traffic, count_traffic
from attnres_cli.model.build import build_model
from tests.small import RESIDUALS, small_preset

TOKENS = 10
X = TOKENS * 16 * 4
HALF = X // 2


def traffic(residual: dict[str, Any], dtype: torch.dtype = torch.float32, **changes: Any) -> Traffic:
    preset = without_choice(small_preset(residual, **changes))
    return count_traffic(build_model(preset, 31, device="meta"), TOKENS, dtype)


def test_plain_residual() -> None:
    counted = traffic(RESIDUALS["prenorm"])
    # First site: read the embedding, write its norm. The other eight: read stream and output, write sum and norm.
    assert counted.forward_bytes == (2 + 8 * 4) * X
    # Every site: its gradient, what the norm kept, the stream's gradient written; and read from above at all but the
    # last.
    assert counted.backward_bytes == (9 * 3 + 8) * X
    assert counted.forward_flops == TOKENS * 16 * (9 * 4 + 8)
    assert counted.flops == 3 * counted.forward_flops
    assert counted.bytes == counted.forward_bytes + counted.backward_bytes


def test_every_output_a_source() -> None:
    counted = traffic(RESIDUALS["full"])
    # Site n reads n sources (1 … 9) and writes one norm.
    assert counted.forward_bytes == (sum(range(1, 10)) + 9) * X
    # Sites: 2 each, and the mixture's gradient at the eight that mix. Sources: each its value and its gradient, and a
    # mixture's gradient for each of the sites behind it: 8 for the embedding (the first site does not mix), 8, 7, … 1.
    assert counted.backward_bytes == (9 * 2 + 8 + 9 * 2 + 8 + sum(range(1, 9))) * X
    # Four per source and mixture, two per source, four per norm.
    assert counted.forward_flops == TOKENS * 16 * (4 * sum(range(2, 10)) + 2 * 9 + 4 * 9)


def test_blocks_with_a_running_sum() -> None:
    """2 blocks of 2 sublayers: outputs 0 and 2 begin a block, outputs 1 and 3 join it."""
    counted = traffic({"scheme": "attnres-block", "num_blocks": 2}, **{"model.transformer_blocks": 2})
    # Reads: e | e, o0 | e, o0 + o1 (and its write) | e, b1, o2 | e, b1, o2 + o3 (and its write); five norms.
    assert counted.forward_bytes == ((1) + (2) + (1 + 3) + (3) + (2 + 3) + 5) * X
    # Sites: 2 each and 4 mixtures. Sources: e, o0, b1, o2, b2 each value and gradient; mixtures: e 4, o0 1, b1 3, o2 1,
    # b2 1; o0 and o2 were replaced.
    assert counted.backward_bytes == (5 * 2 + 4 + 5 * 2 + (4 + 1 + 3 + 1 + 1) + 2) * X


def test_half_precision_halves_outputs_and_norms_and_keeps_sums_wide() -> None:
    counted = traffic(RESIDUALS["prenorm"], torch.bfloat16)
    assert counted.forward_bytes == (X + HALF) + 8 * (2 * X + 2 * HALF)
    assert counted.backward_bytes == 9 * (2 * HALF + X) + 8 * X
    full = traffic(RESIDUALS["full"], torch.bfloat16)
    # The embedding is read nine times in float32, output n (1 … 8) 9 - n times in half.
    assert full.forward_bytes == 9 * X + sum(range(1, 9)) * HALF + 9 * HALF


@pytest.mark.parametrize("name", RESIDUALS)
def test_it_grows_with_the_tokens_alone(name: str) -> None:
    preset = without_choice(small_preset(RESIDUALS[name]))
    model = build_model(preset, 31, device="meta")
    once, thrice = (count_traffic(model, tokens, torch.float32) for tokens in (TOKENS, 3 * TOKENS))
    assert thrice == Traffic(3 * once.forward_bytes, 3 * once.backward_bytes, 3 * once.forward_flops)
