"""Magnitudes against loops over every number, and the growth exponent against known powers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from attnres_cli.probe.intervals import slope_in_logarithms
from attnres_cli.probe.probes import magnitudes
from tests.probe.walked import SCHEMES, all_tokens, subject, vectors, walk


def rms(vector: list[float]) -> float:
    return math.sqrt(sum(x * x for x in vector) / len(vector))


def slow(rows: list[list[float]]) -> dict[str, float]:
    kurtoses = []
    for row in rows:
        mean = sum(row) / len(row)
        second = sum((x - mean) ** 2 for x in row) / len(row)
        kurtoses.append(sum((x - mean) ** 4 for x in row) / len(row) / second**2)
    return {
        "rms": rms([x for row in rows for x in row]),
        "rms_max": max(map(rms, rows)),
        "l2": sum(math.sqrt(sum(x * x for x in row)) for row in rows) / len(rows),
        "max_abs": max(abs(x) for row in rows for x in row),
        "kurtosis": sum(kurtoses) / len(kurtoses),
    }


@pytest.mark.parametrize("name", SCHEMES)
def test_every_figure(name: str) -> None:
    seen = subject(name)
    tokens, _ = all_tokens(seen)
    with torch.no_grad():
        reference = walk(seen.model, tokens)
    found = magnitudes.measure(seen)
    for prefix, tensors in (("input", reference.inputs), ("output", reference.outputs), ("stream", reference.streams)):
        expected = [slow(vectors(x)) for x in tensors]
        for figure in expected[0]:
            key = f"{prefix}_{figure}"
            if key in found.arrays:
                assert found.arrays[key].tolist() == pytest.approx([each[figure] for each in expected], rel=1e-9), key
    shares = [
        slow(vectors(y))["rms"] / slow(vectors(h))["rms"]
        for y, h in zip(reference.outputs, reference.before, strict=True)
    ]
    assert found.arrays["update_share"].tolist() == pytest.approx(shares, rel=1e-9)


def test_all_documented_arrays_are_there() -> None:
    found = magnitudes.measure(subject("prenorm"))
    lengths = {key: len(array) for key, array in found.arrays.items()}
    sublayers = ("input_rms", "input_rms_max", "input_l2", "output_rms", "output_rms_max", "output_l2",
                 "output_max_abs", "output_kurtosis", "update_share")  # fmt: skip
    streams = ("stream_rms", "stream_rms_max", "stream_l2", "stream_max_abs", "stream_kurtosis")
    assert lengths == {**dict.fromkeys(sublayers, 8), **dict.fromkeys(streams, 5)}


def slow_slope(x: list[float], y: list[float]) -> float:
    """The p of the best c x^p by trying slopes ever more finely: no formula for least squares."""
    points = [(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True)]

    def misfit(p: float) -> float:
        offsets = [v - p * u for u, v in points]
        middle = sum(offsets) / len(offsets)
        return sum((offset - middle) ** 2 for offset in offsets)

    low, high = -10.0, 10.0
    for _ in range(200):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if misfit(a) < misfit(b) else (a, high)
    return (low + high) / 2


def test_growth_exponent_is_that_of_the_streams() -> None:
    found = magnitudes.measure(subject("prenorm"))
    after = found.arrays["stream_rms"][1:].tolist()
    assert found.summary["growth_exponent"]["estimate"] == pytest.approx(slow_slope([1, 2, 3, 4], after), abs=1e-6)


def test_a_power_law_is_found_exactly_and_its_interval_has_no_width() -> None:
    found = slope_in_logarithms(range(1, 9), [0.3 * n**1.7 for n in range(1, 9)])
    assert found["estimate"] == pytest.approx(1.7, rel=1e-12)
    assert found["high"] - found["low"] < 1e-9


def test_the_interval_covers_the_slope_in_19_of_20_studies() -> None:
    generator = torch.Generator().manual_seed(1)
    studies = 2000
    hits = 0
    for noise in torch.randn(studies, 6, generator=generator, dtype=torch.float64):
        found = slope_in_logarithms(range(1, 7), [n**0.5 * math.exp(0.2 * float(e)) for n, e in enumerate(noise, 1)])
        hits += found["low"] <= 0.5 <= found["high"]
    assert hits / studies == pytest.approx(0.95, abs=0.02)  # four standard errors of a share of 2,000


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([2.0], {"estimate": None, "low": None, "high": None}),
        ([1.0, 0.0, 2.0], {"estimate": None, "low": None, "high": None}),
        ([1.0, math.nan, 2.0], {"estimate": None, "low": None, "high": None}),
        ([1.0, 2.0], {"estimate": pytest.approx(1.0), "low": None, "high": None}),
    ],
    ids=["one point", "a zero", "not finite", "two points"],
)
def test_what_a_slope_cannot_be_said_of(y: list[float], expected: dict[str, Any]) -> None:
    assert slope_in_logarithms(range(1, len(y) + 1), y) == expected
