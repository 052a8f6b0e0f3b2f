"""Arms against the reference: the paired difference of each with its interval, one picture per cell."""

from __future__ import annotations

import math
import re

from attnres_cli.report.picture import Axis, Lines, Picture, Series
from attnres_cli.report.pictures._series import sentences
from attnres_cli.report.pictures_of_sweeps._curves import DELTA, delta_curve, has_points, outcome_words, seeds_words
from attnres_cli.report.sweep_results import Contrast, Results, SweepDocument, against_reference


def build(document: SweepDocument) -> list[Picture]:
    results = Results.of(document)
    reference, *others = results.labels
    contrasts = against_reference(results)
    found: list[Picture] = []
    for number, cell in enumerate(document["cells"]):
        of_cell = {key: each for key, each in contrasts.items() if key[0] == cell["key"]}
        labels = [label for label in others if (cell["key"], label) in of_cell]
        if not labels:
            continue
        x = Axis("arm", names=tuple(labels))
        series: list[Series] = [
            delta_curve(results, label, [(float(index), cell["key"])], contrasts, joined=False)
            for index, label in enumerate(labels)
        ]
        where = f", {cell['key']}" if cell["key"] else ""
        title = f"Loss of every arm against {reference}{where}"
        caption = sentences(
            seeds_words(results).replace("mean over", "mean difference over"),
            f"below zero: lower than {reference}",
            f"after Holm's correction: {outcome_words(of_cell)}",
        )
        key = "arms" + (f"-{_slug(cell['key'])}" if cell["key"] else "")
        if any(picture.key == key for picture in found):
            key = f"{key}-{number}"
        if any(map(has_points, series)):
            said = f"{title}: {'; '.join(_difference(label, of_cell[cell['key'], label]) for label in labels)}."
            found.append(Lines(key, title, x, DELTA, tuple(series), said, caption, zero=True))
    return found


def _difference(label: str, found: Contrast) -> str:
    return f"{label} {found.text()}" + ("" if math.isnan(found.half) else f" ± {found.half:.4f}")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
