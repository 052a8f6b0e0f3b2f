"""Loss by depth at one width."""

from __future__ import annotations

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
from attnres_cli.report.sweep_results import Results, SweepDocument, against_reference

DEPTH = Axis("transformer blocks", logarithmic=True)


def build(document: SweepDocument) -> list[Picture]:
    results = Results.of(document)
    places = sorted((float(cell["coordinates"]["transformer_blocks"]), cell["key"]) for cell in document["cells"])
    losses = [curve for label in results.labels if has_points(curve := loss_curve(results, label, places))]
    if not losses:
        return []
    title = "Validation loss by depth"
    said = told(title, losses, DEPTH)
    lines = Lines("depth", title, DEPTH, LOSS, tuple(losses), said, sentences(seeds_words(results)))
    found: list[Picture] = [*on_fitting_scale([lines])]
    contrasts = against_reference(results)
    deltas = [
        curve for label in results.labels[1:] if has_points(curve := delta_curve(results, label, places, contrasts))
    ]
    if deltas:
        title = f"Loss minus that of {results.labels[0]} by depth"
        caption = sentences(seeds_words(results), f"after Holm's correction: {outcome_words(contrasts)}")
        said = told(title, deltas, DEPTH)
        found.append(Lines("depth-difference", title, DEPTH, DELTA, tuple(deltas), said, caption, zero=True))
    return found
