"""Loss by learning rate, per arm: where each has its best rate, and whether the rate matters to the comparison."""

from __future__ import annotations

import math

from attnres_cli.analysis.tuning import Trial
from attnres_cli.report.picture import Axis, Lines, Picture, Series
from attnres_cli.report.pictures._series import on_fitting_scale, sentences, told
from attnres_cli.report.pictures_of_sweeps._curves import LOSS
from attnres_cli.report.sweep_results import SweepDocument
from attnres_cli.report.tuning import KEYS, Tuning

RATE = Axis("learning rate", logarithmic=True)


def build(document: SweepDocument) -> list[Picture]:
    tuning = Tuning.of(document)
    series = tuple(
        each for place, label in enumerate(tuning.labels) if (each := _curve(tuning, label, place)) is not None
    )
    if not series:
        return []
    title = "Validation loss by learning rate"
    best = [
        f"{label} {tuning.value(trial, KEYS['rate']):g}"
        for label in tuning.labels
        if (trial := tuning.searched(label)) is not None
    ]
    n = len(document["seeds"])
    caption = sentences(
        f"trials at the search's horizon, {n} seed{'s' * (n > 1)}; one that diverged is left out",
        f"best: {', '.join(best)}" if best else "",
    )
    lines = Lines("learning-rate", title, RATE, LOSS, series, told(title, series, RATE), caption)
    return list(on_fitting_scale([lines]))


def _curve(tuning: Tuning, label: str, place: int) -> Series | None:
    """The trials of an arm that differ from the preset in nothing but the learning rate."""
    points = sorted(
        (rate, loss)
        for trial, loss in tuning.losses[label].items()
        if trial == Trial(rate=trial.rate) and math.isfinite(loss) and (rate := tuning.value(trial, KEYS["rate"]))
    )
    return (
        Series(label, place, tuple(rate for rate, _ in points), tuple(loss for _, loss in points)) if points else None
    )
