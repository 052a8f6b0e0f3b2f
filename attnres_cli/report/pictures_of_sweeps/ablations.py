"""The paper's ablations: every arm against the reference."""

from __future__ import annotations

from attnres_cli.report.picture import Picture
from attnres_cli.report.pictures_of_sweeps import arms
from attnres_cli.report.sweep_results import SweepDocument


def build(document: SweepDocument) -> list[Picture]:
    return arms.build(document)
