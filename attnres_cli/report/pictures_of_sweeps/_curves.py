"""Means and paired differences of a sweep's arms as curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from attnres_cli.report.picture import Axis, Series
from attnres_cli.report.sweep_results import OUTCOME_WORDS, Contrast, Key, Results

LOSS = Axis("validation loss", "nats per token")
DELTA = Axis("Δ loss", "nats per token")

# (x, cell key)
Places = Sequence[tuple[float, str]]


def loss_curve(results: Results, label: str, places: Places, *, joined: bool = True) -> Series:
    """The mean loss of an arm over cells, with its interval where there are several seeds."""
    found = [(x, results.mean(cell, label)) for x, cell in places]
    return _series(
        results, label, [(x, None if mean is None else (mean.value, mean.half)) for x, mean in found], joined
    )


def delta_curve(
    results: Results, label: str, places: Places, contrasts: Mapping[Key, Contrast], *, joined: bool = True
) -> Series:
    """An arm's paired difference to the reference over cells, with its interval."""
    found = [(x, contrasts.get((cell, label))) for x, cell in places]
    return _series(results, label, [(x, None if each is None else (each.mean, each.half)) for x, each in found], joined)


def has_points(series: Series) -> bool:
    return any(y is not None for y in series.y)


def seeds_words(results: Results) -> str:
    """What a point stands for."""
    n = results.num_seeds
    return "one seed: no interval" if n == 1 else f"mean over {n} seeds, interval: 95 % (Student's t)"


def outcome_words(contrasts: Mapping[Key, Contrast]) -> str:
    """How many differences are shown, and how many are not."""
    counted: dict[str, int] = {}
    for each in contrasts.values():
        counted[OUTCOME_WORDS[each.outcome]] = counted.get(OUTCOME_WORDS[each.outcome], 0) + 1
    return ", ".join(f"{number} {words}" for words, number in counted.items())


def _series(
    results: Results, label: str, points: Sequence[tuple[float, tuple[float, float] | None]], joined: bool
) -> Series:  # fmt: skip
    """points: (x, (y, half the width of its interval)), half nan with one seed."""
    x = tuple(place for place, _ in points)
    y = tuple(None if found is None else found[0] for _, found in points)
    place = results.labels.index(label)
    if not any(found is not None and math.isfinite(found[1]) for _, found in points):
        return Series(label, place, x, y, joined=joined)

    def end(sign: int) -> tuple[float | None, ...]:
        return tuple(
            None if found is None or math.isnan(found[1]) else found[0] + sign * found[1] for _, found in points
        )

    return Series(label, place, x, y, end(-1), end(+1), joined=joined)
