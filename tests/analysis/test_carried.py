"""Which representations are final at which depth, seen on the state of every scheme."""

from __future__ import annotations

import pytest

from attnres_cli.analysis.carried import carried
from attnres_cli.model.build import build_model
from tests.small import RESIDUALS, VOCAB_SIZE, small_preset


@pytest.mark.parametrize(
    ("residual", "finished", "kept"),
    [
        ("prenorm", (0, 0, 0, 0, 0, 0, 0, 0, 1), 0),
        ("full", (1, 2, 3, 4, 5, 6, 7, 8, 9), 8),
        ("blocks of 1", (1, 2, 3, 4, 5, 6, 7, 8, 9), 8),
        ("blocks of 3", (1, 1, 1, 2, 2, 2, 3, 3, 4), 3),
        ("3 blocks", (1, 1, 2, 2, 3, 3, 3, 3, 4), 3),
        ("1 block", (1, 1, 1, 1, 1, 1, 1, 1, 2), 1),
    ],
)
def test_finished_representations(residual: str, finished: tuple[int, ...], kept: int) -> None:
    seen = carried(build_model(small_preset(RESIDUALS[residual]), VOCAB_SIZE, device="meta"))
    assert seen.finished == finished
    assert seen.kept == kept
