"""The interval of a share against published values and the definition."""

from __future__ import annotations

from math import comb

import pytest

from attnres_cli.analysis.binomial import share_interval


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [(0, 10, 0.0, 0.3085), (10, 10, 0.6915, 1.0), (8, 10, 0.4439, 0.9748), (5, 100, 0.0164, 0.1128)],
)
def test_published_intervals(hits: int, n: int, low: float, high: float) -> None:
    assert share_interval(hits, n) == pytest.approx((low, high), abs=5e-5)


def test_either_limit_leaves_half_of_the_rest_beyond_what_was_counted() -> None:
    hits, n, confidence = 7, 23, 0.9
    low, high = share_interval(hits, n, confidence=confidence)

    def mass(share: float, counts: range) -> float:
        return sum(comb(n, k) * share**k * (1 - share) ** (n - k) for k in counts)

    assert mass(low, range(hits, n + 1)) == pytest.approx(0.05, abs=1e-9)
    assert mass(high, range(hits + 1)) == pytest.approx(0.05, abs=1e-9)


@pytest.mark.parametrize(("hits", "n", "confidence"), [(1, 0, 0.95), (-1, 5, 0.95), (6, 5, 0.95), (1, 5, 1.0)])
def test_what_is_no_share(hits: int, n: int, confidence: float) -> None:
    with pytest.raises(ValueError, match="not"):
        share_interval(hits, n, confidence=confidence)
