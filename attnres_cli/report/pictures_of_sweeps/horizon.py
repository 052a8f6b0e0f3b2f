"""A horizon ladder: the paired difference at the end of every decayed run, and the losses themselves."""

from __future__ import annotations

from attnres_cli.report.horizon import Ladder
from attnres_cli.report.picture import Axis, Lines, Picture
from attnres_cli.report.pictures._series import on_fitting_scale, sentences, told
from attnres_cli.report.pictures_of_sweeps._curves import (
    DELTA,
    LOSS,
    delta_curve,
    has_points,
    loss_curve,
    outcome_words,
    seeds_words,
)
from attnres_cli.report.sweep_results import SweepDocument

HORIZON = Axis("horizon", "training tokens", logarithmic=True)
DECAYED = "every point is the end of a schedule that has decayed"


def build(document: SweepDocument) -> list[Picture]:
    ladder = Ladder(document)
    results = ladder.results
    places = [(float(rung.tokens), rung.key) for rung in ladder.rungs]
    found: list[Picture] = []
    deltas = [
        curve
        for label in ladder.labels[1:]
        if has_points(curve := delta_curve(results, label, places, ladder.contrasts))
    ]
    if deltas:
        title = f"Loss minus that of {ladder.reference} by horizon"
        trends = [
            f"{label} {trend.mean:+.4f} nats per doubling of the tokens"
            for label in ladder.labels[1:]
            if (trend := ladder.trend(label)) is not None
        ]
        caption = sentences(
            DECAYED,
            seeds_words(results),
            f"after Holm's correction: {outcome_words(ladder.contrasts)}",
            f"trend: {', '.join(trends)}" if trends else "",
        )
        said = told(title, deltas, HORIZON)
        found.append(Lines("horizon-difference", title, HORIZON, DELTA, tuple(deltas), said, caption, zero=True))
    losses = [curve for label in ladder.labels if has_points(curve := loss_curve(results, label, places))]
    if losses:
        title = "Validation loss by horizon"
        caption = sentences(DECAYED, seeds_words(results))
        lines = Lines("horizon", title, HORIZON, LOSS, tuple(losses), told(title, losses, HORIZON), caption)
        found += on_fitting_scale([lines])
    return found
