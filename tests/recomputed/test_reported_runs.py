"""`attnres report` of a group: the tables of the comparison again, and the numbers of its pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.recomputed import compared_groups, configuration, inside_models, pictured
from tests.recomputed.arms import Compared
from tests.recomputed.beside_tables import check_figures
from tests.recomputed.harness import check_document
from tests.recomputed.material import groups

ORACLES = {**configuration.ORACLES, **inside_models.ORACLES, **compared_groups.ORACLES, **pictured.ORACLES}
OTHERS = {"attnres-block": [0.051, 0.062, 0.045, 0.055], "attnres-full": [0.01, -0.021, 0.015, 0.005]}


# Drawn on a logarithmic axis here, because their means differ by more than a factor of ten.
LOGARITHMIC = ("stream-rms-numbers", "update-share-numbers")
Said = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("other", OTHERS)
def test_two_arms(other: str, tmp_path: Path, said: Said) -> None:
    """The numbers of a picture stand in a text where they are few: those of two arms are."""
    document, material = reported(other, tmp_path, said)
    pictures = {key for key in pictured.ORACLES if not key.startswith("depth-weights")} - set(LOGARITHMIC)
    for key in LOGARITHMIC:
        del document["tables"][key]
    check_document(document, ORACLES, material, tables={*pictures, f"depth-weights-{other}-numbers", "verdict", "loss"})
    check_figures(document, material)


@pytest.mark.parametrize(("other", "key"), list(zip(OTHERS, reversed(LOGARITHMIC), strict=True)))
def test_intervals_are_whole_on_a_logarithmic_axis(other: str, key: str, tmp_path: Path, said: Said) -> None:
    document, material = reported(other, tmp_path, said)
    check_document({"tables": {key: document["tables"][key]}}, ORACLES, material)


def reported(other: str, tmp_path: Path, said: Said) -> tuple[dict[str, Any], Compared]:
    material = groups(tmp_path / "runs", {"prenorm": [0.0] * 4, other: OTHERS[other]})
    return said("report", "group", "--no-bench"), material
