"""Only what differs, in the order of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnres_cli.preset.difference import Difference, differences
from attnres_cli.preset.reading import load_preset


def test_differences(members: Any, project: Path) -> None:
    base = load_preset("base.toml", members=members)
    assert differences(base, base) == []
    other = base.replace({"train.schedule": "wsd", "model.d_model": 128, "model.d_ff": 96, "residual.scheme": "blocks"})
    assert differences(base, other) == [
        Difference("model.d_model", 64, 128),
        Difference("model.d_ff", 192, 96),
        Difference("residual.scheme", "plain", "blocks"),
        Difference("residual.gain", None, True),
        Difference("train.schedule", "cosine", "wsd"),
        Difference("train.decay_fraction", None, 0.2),
    ]
    assert [each.key for each in differences(other, base)] == [each.key for each in differences(base, other)]
