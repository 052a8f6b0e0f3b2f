"""What observers saw, as single numbers: each against numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from attnres_cli.runs.observed import FIGURES, observed_figures


def row(observer: str, step: int, **summary: Any) -> dict[str, Any]:
    return {"observer": observer, "step": step, "summary": summary}


def site(sources: int, embedding: float, recent: float, entropy: float, kind: str = "attention") -> dict[str, Any]:
    return {
        "sources": [f"s{index}" for index in range(sources)],
        "embedding_share": embedding,
        "recent_share": recent,
        "entropy": entropy,
        "kind": kind,
    }


ROWS = [
    row("magnitudes", 10, output_rms=[9.0] * 4, update_share=[9.0] * 4),
    row("magnitudes", 20, output_rms=[1.0, 4.0, 5.0, 16.0], update_share=[0.5, 0.4, 0.08, 0.02]),
    row("gradients", 20, parameter_grad_norm=[6.0, 3.0, 2.0]),
    row(
        "depth_weights",
        20,
        sites=[
            site(1, 1.0, 1.0, 0.0),
            site(2, 0.75, 0.25, math.log(2)),
            site(4, 0.25, 0.5, math.log(2), "feed_forward"),
        ],
    ),
]


def test_figures_are_of_the_last_observation() -> None:
    found = observed_figures(ROWS)
    assert found["output_growth"] == pytest.approx(math.sqrt(5 * 16) / math.sqrt(1 * 4))
    assert found["largest_output"] == pytest.approx(16 / (1 * 4 * 5 * 16) ** 0.25)
    assert found["late_update_share"] == pytest.approx(math.sqrt(0.08 * 0.02))
    assert found["gradient_spread"] == 3.0
    assert found["embedding_weight"] == pytest.approx((0.75 * 2 + 0.25 * 4) / 2)
    assert found["recent_weight"] == pytest.approx((0.25 * 2 + 0.5 * 4) / 2)
    assert found["entropy_share"] == pytest.approx((1 + 0.5) / 2)
    assert found["feed_forward_locality"] == pytest.approx((0.5 * 4) / (0.25 * 2))
    assert set(found) == set(FIGURES)


def test_what_was_not_recorded_is_absent() -> None:
    assert observed_figures([]) == {}
    assert set(observed_figures(ROWS[:2])) == {"output_growth", "largest_output", "late_update_share"}


@pytest.mark.parametrize("norms", [[1.0, None], [1.0, 0.0], "torn", [], [1.0, float("nan")]])
def test_a_hole_makes_no_number(norms: Any) -> None:
    assert observed_figures([row("gradients", 1, parameter_grad_norm=norms)]) == {}


def test_a_scheme_that_has_no_choice_has_no_weights() -> None:
    assert observed_figures([row("depth_weights", 1, sites=[site(1, 1.0, 1.0, 0.0)])]) == {}
