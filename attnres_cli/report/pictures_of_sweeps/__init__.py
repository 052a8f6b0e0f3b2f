"""Pictures of a sweep: one file per report of report/sweeps/, of the same name, with

    def build(document: SweepDocument) -> list[Picture]

over the document in sweep.json and nothing else. What several seeds say is drawn as a mean with its 95 % interval. A
sweep whose report has no file here has no pictures of its own.
"""

from __future__ import annotations

from attnres_cli.discovery import load, names
from attnres_cli.report.picture import Picture
from attnres_cli.report.sweep_results import SweepDocument


def pictures_of_sweep(document: SweepDocument) -> list[Picture]:
    """Every picture that a sweep has something for."""
    report = str(document["report"])
    if report not in names("report.pictures_of_sweeps"):
        return []
    found: list[Picture] = load("report.pictures_of_sweeps", report, what="sweep").build(document)
    return found
